package credentialprovider

import "time"

// SetTimeout replaces the timeout of one run of a plugin.
func (p *Provider) SetTimeout(d time.Duration) { p.timeout = d }
