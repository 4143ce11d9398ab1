package syncpod

// Parts are the parts that a test may replace.
func (c *Config) Parts() *dependencies { return &c.deps }
