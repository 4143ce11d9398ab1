// Package probe describes the checks that an agent makes for the startup, liveness and readiness
// probes of containers. An [Observer] in agent.Config.ProbeObserver is notified of each [Check].
package probe
