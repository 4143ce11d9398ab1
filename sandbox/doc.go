// Package sandbox has the settings of a node that the sandboxes of its pods depend on: name resolution ([NodeDNS],
// [ParseResolvConf]), runtime classes ([RuntimeClasses]) and the directory of logs. A sandbox is the environment that
// the containers of a pod share.
package sandbox
