package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi/registration"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/device"
)

const (
	// maxAnswer is the maximum size of a driver's answer in bytes, as in a kubelet. maxText is the maximum length of a driver's text
	// in an error.
	maxAnswer, maxText = 4 << 20, 1024
	// maxDevices is the maximum number of devices of a claim in the answer of a driver, maxItems the maximum number of requests and
	// of CDI devices of each, maxName the maximum length of each name, and maxNames of all names together.
	maxDevices, maxItems, maxName, maxNames = 256, 64, 512, 24 << 10
)

// A driver is an instance of a driver that is registered.
type driver struct {
	name, socket string
	api          drav1.DRAPluginClient
	close        func() error
	// end ends the stream of its health. health is what the stream reports, by pool and device.
	end    context.CancelFunc
	health map[deviceID]health
}

// Run registers drivers until ctx ends, and then disconnects all. It returns an error if drivers cannot register. It may be called
// again after it has returned.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.disconnect()
	defer cancel()
	m.mu.Lock()
	m.running = ctx
	m.mu.Unlock()
	m.streams.Go(func() { m.expire(ctx) })
	w := registration.Watcher{
		Directory: filepath.Join(m.config.Root, "plugins_registry"), Root: m.config.Root, Type: registerapi.DRAPlugin,
		Register: m.register, Removed: m.removed, Log: m.config.Log,
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("dra: %w", err)
	}
	return nil
}

// disconnect ends the connections to all drivers.
func (m *Manager) disconnect() {
	m.mu.Lock()
	for _, instances := range m.drivers {
		for _, d := range instances {
			d.end()
			_ = d.close() // the error changes nothing
		}
	}
	clear(m.drivers)
	m.mu.Unlock()
	m.streams.Wait()
}

// register registers an instance of a driver. The newest one is called.
func (m *Manager) register(_ context.Context, p registration.Plugin) error {
	if err := checkDriver(p.Name); err != nil {
		return err
	}
	current := slices.Contains(p.Versions, drav1.DRAPluginService)
	if !current && !slices.Contains(p.Versions, drav1beta1.DRAPluginService) {
		return fmt.Errorf("driver %s supports neither %s nor %s", p.Name, drav1.DRAPluginService, drav1beta1.DRAPluginService)
	}
	conn, err := registration.Dial(p.Endpoint, maxAnswer)
	if err != nil {
		return err
	}
	calls := renamed{conn, drav1.DRAPlugin_ServiceDesc.ServiceName, drav1.DRAPlugin_ServiceDesc.ServiceName}
	if !current {
		calls.to = drav1beta1.DRAPlugin_ServiceDesc.ServiceName
	}
	m.mu.Lock()
	if m.running == nil || m.running.Err() != nil {
		m.mu.Unlock()
		return errors.Join(errors.New("the agent ends"), conn.Close())
	}
	streaming, end := context.WithCancel(m.running)
	d := &driver{name: p.Name, socket: p.Socket, api: drav1.NewDRAPluginClient(calls), close: conn.Close, end: end}
	m.drivers[p.Name] = append(m.drivers[p.Name], d)
	waiting := m.waitingFor(p.Name)
	switch {
	case slices.Contains(p.Versions, healthv1.DRAResourceHealthService):
		m.streams.Go(func() { m.watchHealth(streaming, d, healthv1.NewDRAResourceHealthClient(conn)) })
	case slices.Contains(p.Versions, healthv1alpha1.DRAResourceHealthService):
		older := renamed{conn, healthv1.DRAResourceHealth_ServiceDesc.ServiceName, healthv1alpha1.DRAResourceHealth_ServiceDesc.ServiceName}
		m.streams.Go(func() { m.watchHealth(streaming, d, healthv1.NewDRAResourceHealthClient(older)) })
	}
	m.mu.Unlock()
	m.config.Log.Info("DRA driver registered", "driver", p.Name)
	m.notifyAll(waiting)
	return nil
}

// renamed calls the methods of an older version of a service, whose messages are the same on the wire.
type renamed struct {
	*grpc.ClientConn
	from, to string
}

func (r renamed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.ClientConn.Invoke(ctx, strings.Replace(method, r.from, r.to, 1), args, reply, opts...)
}

func (r renamed) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.ClientConn.NewStream(ctx, desc, strings.Replace(method, r.from, r.to, 1), opts...)
}

// removed deregisters the instance that registered at a socket.
func (m *Manager) removed(socket string) {
	var left *driver
	m.mu.Lock()
	for name, instances := range m.drivers {
		i := slices.IndexFunc(instances, func(d *driver) bool { return d.socket == socket })
		if i < 0 {
			continue
		}
		left = instances[i]
		m.drivers[name] = slices.Delete(slices.Clone(instances), i, i+1)
		if len(m.drivers[name]) == 0 {
			delete(m.drivers, name)
		}
	}
	m.mu.Unlock()
	if left == nil {
		return
	}
	left.end()
	_ = left.close() // the error changes nothing
	m.config.Log.Info("DRA driver deregistered", "driver", left.name)
	m.notifyAll(m.podsWith(left.name, nil))
}

// driver returns the newest instance of a driver, nil if none is registered.
func (m *Manager) driver(name string) *driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	if instances := m.drivers[name]; len(instances) > 0 {
		return instances[len(instances)-1]
	}
	return nil
}

// waitingFor returns the pods of claims that a driver has not prepared. The caller holds the lock.
func (m *Manager) waitingFor(name string) (pods []types.UID) {
	for _, c := range m.claims {
		if c.record == nil {
			continue
		}
		if d, uses := c.record.Drivers[name]; uses && !d.Prepared {
			for pod := range c.record.Pods {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// notifyAll notifies the loop of pods, without the lock.
func (m *Manager) notifyAll(pods []types.UID) {
	m.mu.Lock()
	notify := m.notify
	m.mu.Unlock()
	slices.Sort(pods)
	for _, pod := range slices.Compact(pods) {
		notify(pod)
	}
}

// prepare calls NodePrepareResources.
func (d *driver) prepare(ctx context.Context, claims []*record) map[types.UID]claimAnswer {
	resp, err := d.api.NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: requested(claims)})
	answers := map[string]claimAnswer{}
	for uid, c := range resp.GetClaims() {
		var a claimAnswer
		if c.GetError() != "" {
			a.err = errors.New(c.GetError())
		} else {
			a.devices, a.err = devicesOf(c.GetDevices())
		}
		answers[uid] = a
	}
	return d.answers("NodePrepareResources", claims, answers, err)
}

// unprepare calls NodeUnprepareResources.
func (d *driver) unprepare(ctx context.Context, claims []*record) map[types.UID]claimAnswer {
	resp, err := d.api.NodeUnprepareResources(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: requested(claims)})
	answers := map[string]claimAnswer{}
	for uid, c := range resp.GetClaims() {
		var a claimAnswer
		if c.GetError() != "" {
			a.err = errors.New(c.GetError())
		}
		answers[uid] = a
	}
	return d.answers("NodeUnprepareResources", claims, answers, err)
}

func requested(claims []*record) (all []*drav1.Claim) {
	for _, r := range claims {
		all = append(all, &drav1.Claim{Namespace: r.Namespace, Name: r.Name, Uid: string(r.UID)})
	}
	return all
}

// answers checks the answer to a call: each claim must be in it, and no other.
func (d *driver) answers(method string, claims []*record, answers map[string]claimAnswer, err error) map[types.UID]claimAnswer {
	checked := map[types.UID]claimAnswer{}
	for _, r := range claims {
		a, answered := answers[string(r.UID)]
		delete(answers, string(r.UID))
		switch {
		case err != nil:
			a = claimAnswer{err: fmt.Errorf("%s of driver %s: %w", method, d.name, shorten(err))}
		case !answered:
			a = claimAnswer{err: fmt.Errorf("%s of driver %s skipped ResourceClaim %s", method, d.name, r.Name)}
		case a.err != nil:
			a = claimAnswer{err: fmt.Errorf("%s of driver %s failed for ResourceClaim %s: %w", method, d.name, r.Name, shorten(a.err))}
		}
		checked[r.UID] = a
	}
	if len(answers) > 0 { // the driver mixes claims up, so none of its answers counts
		unknown := slices.Min(slices.Collect(maps.Keys(answers)))
		for _, r := range claims {
			checked[r.UID] = claimAnswer{err: fmt.Errorf("%s of driver %s returned result for unknown claim UID %.80q", method, d.name, unknown)}
		}
	}
	return checked
}

// devicesOf returns the devices of a claim in a driver's answer.
func devicesOf(from []*drav1.Device) ([]preparedDevice, error) {
	if len(from) > maxDevices {
		return nil, fmt.Errorf("it has %d devices, more than %d", len(from), maxDevices)
	}
	var devices []preparedDevice
	for _, d := range from {
		devices = append(devices, preparedDevice{Requests: d.GetRequestNames(), Pool: d.GetPoolName(), Device: d.GetDeviceName(), CDI: d.GetCdiDeviceIds()})
	}
	return devices, checkDevices(devices)
}

// checkDevices returns an error that names an invalid field: the names enter the configurations of containers, and statuses.
func checkDevices(devices []preparedDevice) error {
	size := 0
	for i := range devices {
		d := &devices[i]
		if len(d.Requests) > maxItems || len(d.CDI) > maxItems {
			return fmt.Errorf("device %d has %d request_names and %d cdi_device_ids, more than %d", i, len(d.Requests), len(d.CDI), maxItems)
		}
		for _, name := range slices.Concat([]string{d.Pool, d.Device}, d.Requests, d.CDI) {
			if size += len(name); len(name) > maxName || foreign.Cut(name, maxName) != name {
				return fmt.Errorf("device %d has the name %.80q: want at most %d bytes of text", i, name, maxName)
			}
		}
		if err := (device.Allocation{CDIDevices: d.CDI}).Validate(); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
	}
	if size > maxNames {
		return fmt.Errorf("the names of the devices have %d bytes, more than %d", size, maxNames)
	}
	return nil
}

// checkDriver returns an error unless a name is that of a driver.
func checkDriver(name string) error {
	if len(name) > maxDriver || len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
		return fmt.Errorf("driver name %.80q is invalid: want a DNS subdomain of at most %d bytes", name, maxDriver)
	}
	return nil
}

// A shortened is an error from a driver with a truncated text.
type shortened struct {
	text string
	error
}

func (s shortened) Error() string { return s.text }
func (s shortened) Unwrap() error { return s.error }

// shorten bounds and escapes a driver's error text, because the driver chooses the text.
func shorten(err error) error { return shortened{foreign.Cut(err.Error(), maxText), err} }
