// Package gc removes what dead containers leave behind in pods that live: a
// container that crashes leaves a dead instance and a log with each restart, for as
// long as its pod lives. What is left of pods that are gone is for whoever ends
// them, but for their logs.
//
// [Decide] says what of a pod may be removed. It is a pure function of what the
// runtime reports. A [Collector] does it, in a pass that its owner calls every so
// often. It reads no runtime: it looks at what a runtime.Cache knows already, so
// that a pass in which nothing is to be removed makes no call.
//
// # What stays
//
// Of each container, by name, whatever its kind:
//
//   - the current instance, dead or not, of whatever sandbox: by it is decided what
//     is to run, and whether init containers have done their part;
//   - the newest Policy.PerContainer dead ones that it has followed, of which the API
//     reports the last one as lastState, beside the current instance's state. While
//     the current instance has not run it may yet be given up, so that one more stays.
//
// So no status that is made later needs anything that was removed, whether or not
// those made before could be delivered (kubernetes #117005). Nothing is removed that
// runs or may yet run.
//
// Of the sandboxes the latest stays, those that are ready, and those that anything
// is left in. Of the logs, those of instances that the runtime has and of as many
// attempts as instances stay, the newest ones, from which the next attempt's number
// follows (kubernetes #134153).
package gc
