package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// recordVersion is the version of the format of records.
	recordVersion = 1
	// maxRecord is the maximum size of a record that is read or written, in bytes.
	maxRecord = 1 << 20
	suffix    = ".json"
)

// A record is the state of a claim that outlives the agent. Records are not modified: a change makes a new one.
type record struct {
	Version   int       `json:"version"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Boot is the node's boot ID when the record was written: what drivers have prepared does not survive a reboot.
	Boot string `json:"boot,omitempty"`
	// Drivers are the drivers of the claim's devices, by name.
	Drivers map[string]driverState `json:"drivers"`
	// Pods are the pods for which the claim was prepared, or will be.
	Pods map[types.UID]use `json:"pods"`
}

// driverState is the state of the claim's devices that one driver has.
type driverState struct {
	// Tried means that the devices may be prepared: it is written before NodePrepareResources is called, and cleared after
	// NodeUnprepareResources has succeeded. Prepared means that they are, and that Devices is the answer.
	Tried    bool             `json:"tried,omitempty"`
	Prepared bool             `json:"prepared,omitempty"`
	Devices  []preparedDevice `json:"devices,omitempty"`
	// SkipPrepare and SkipUnprepare mean that the driver needs no such call for these devices.
	SkipPrepare   bool `json:"skipPrepare,omitempty"`
	SkipUnprepare bool `json:"skipUnprepare,omitempty"`
}

// A preparedDevice is a device in the answer of a driver.
type preparedDevice struct {
	// Requests are the requests of the claim that the device belongs to. Empty means all.
	Requests []string `json:"requests,omitempty"`
	Pool     string   `json:"pool"`
	Device   string   `json:"device"`
	CDI      []string `json:"cdi,omitempty"`
}

// A use is the use of a claim by a pod. With it the pod's containers can restart without the pod's status and without the claim.
type use struct {
	// Names are the names in the pod's spec.resourceClaims.
	Names []string `json:"names,omitempty"`
	// Extended are the requests for extended resources of containers.
	Extended []extended `json:"extended,omitempty"`
}

// extended is the request of the claim that backs an extended resource of a container.
type extended struct {
	Container string `json:"container"`
	Request   string `json:"request"`
}

// clone returns a copy whose maps can be changed.
func (r *record) clone() *record {
	c := *r
	c.Drivers, c.Pods = maps.Clone(r.Drivers), maps.Clone(r.Pods)
	return &c
}

// prepared reports whether all drivers have prepared the claim.
func (r *record) prepared() bool {
	for _, d := range r.Drivers {
		if !d.Prepared {
			return false
		}
	}
	return true
}

// inBoot returns the record in a boot. After a reboot nothing is prepared any more.
func (r *record) inBoot(boot string) *record {
	if r.Boot == boot || r.Boot == "" || boot == "" {
		return r
	}
	c := r.clone()
	for name, d := range c.Drivers {
		d.Prepared = false
		c.Drivers[name] = d
	}
	return c
}

// write writes the record, and returns when it is on the disk.
func (r *record) write(dir, boot string) error {
	c := *r
	c.Version, c.Boot = recordVersion, boot
	text, err := json.Marshal(&c)
	if err != nil {
		return err
	}
	if len(text) > maxRecord {
		return fmt.Errorf("the record of claim %s/%s has %d bytes, more than %d", r.Namespace, r.Name, len(text), maxRecord)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := hostfs.Replace(recordPath(dir, r.UID), text, true); err != nil {
		return err
	}
	return hostfs.SyncDir(dir)
}

// removeRecord removes a claim's record, if there is one.
func removeRecord(dir string, uid types.UID) error {
	_ = os.Remove(hostfs.Temporary(recordPath(dir, uid))) // of a write that was cut
	if err := os.Remove(recordPath(dir, uid)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return hostfs.SyncDir(dir)
}

func recordPath(dir string, uid types.UID) string { return filepath.Join(dir, string(uid)+suffix) }

// readRecords returns the records of earlier agents, and the errors of those that cannot be read.
func readRecords(dir string) (records []*record, errs []error, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	names, err := hostfs.Names(root, ".")
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		uid, isRecord := strings.CutSuffix(name, suffix)
		if !isRecord || strings.HasPrefix(name, ".") {
			continue
		}
		r := &record{}
		text, err := hostfs.Read(root, name, maxRecord)
		if err == nil {
			err = r.parse(text, types.UID(uid))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the record of claim %s, below %s: %w", uid, dir, err))
			continue
		}
		records = append(records, r)
	}
	return records, errs, nil
}

// parse reads a record. An invalid CDI device would be passed to the runtime.
func (r *record) parse(text []byte, uid types.UID) error {
	if err := json.Unmarshal(text, r); err != nil {
		return err
	}
	if r.Version != recordVersion || r.UID != uid || r.Drivers == nil || r.Pods == nil {
		return fmt.Errorf("it has version %d and UID %.100q, and this agent reads version %d of its own", r.Version, r.UID, recordVersion)
	}
	for name, d := range r.Drivers {
		if err := checkDevices(d.Devices); err != nil {
			return fmt.Errorf("driver %.100q: %w", name, err)
		}
	}
	return nil
}

// bootID returns the ID of the node's boot, empty if it is unknown.
func bootID() string {
	text, err := hostfs.ReadPath("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
