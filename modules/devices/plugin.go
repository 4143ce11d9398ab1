package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
)

// A plugin is a registered plugin.
type plugin struct {
	resource string
	api      pluginapi.DevicePluginClient
	conn     *grpc.ClientConn
	options  *pluginapi.DevicePluginOptions
	// end ends the stream of its reports.
	end context.CancelFunc
}

// connect connects to a plugin that registers, and reads its reports until running ends.
func (m *Manager) connect(running, registering context.Context, req *pluginapi.RegisterRequest) error {
	p, err := m.dial(registering, req.GetResourceName(), filepath.Join(m.config.Directory, req.GetEndpoint()))
	if err != nil {
		return err
	}
	watching, end := context.WithCancel(running)
	p.end = end
	m.mu.Lock()
	if names := m.ledger.Names(); len(names) >= maxResources && !slices.Contains(names, p.resource) {
		m.mu.Unlock()
		end()
		return errors.Join(fmt.Errorf("resource_name is %q: there are %d resources already, see %s", p.resource, len(names), m.known.path), p.conn.Close())
	}
	before := m.plugins[p.resource]
	m.plugins[p.resource], m.preStarts[p.resource] = p, p.options.GetPreStartRequired()
	m.ledger.Register(p.resource)
	m.mu.Unlock()
	if before != nil {
		before.end()
	}
	m.config.Log.Info("device plugin registered", "resource", p.resource, "endpoint", req.GetEndpoint())
	m.watchers.Go(func() {
		err := m.watch(watching, p)
		m.disconnect(running, p, err)
	})
	return nil
}

// dial connects to a plugin, and reads its options.
func (m *Manager) dial(ctx context.Context, resource, path string) (*plugin, error) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, errors.Join(fmt.Errorf("endpoint is %q: no socket of that name in the directory of plugins", filepath.Base(path)), err)
	}
	conn, err := grpc.NewClient("passthrough:///"+resource, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	p := &plugin{resource: resource, api: pluginapi.NewDevicePluginClient(conn), conn: conn}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if p.options, err = p.api.GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true)); err != nil {
		return nil, errors.Join(fmt.Errorf("endpoint is %q: failed to get device plugin options: %w", filepath.Base(path), shorten(err)), conn.Close())
	}
	return p, nil
}

// watch reads the plugin's reports, and returns the error that ended the stream. It limits the rate at which it reads
// them, so that a plugin that reports without end is blocked.
func (m *Manager) watch(ctx context.Context, p *plugin) error {
	stream, err := p.api.ListAndWatch(ctx, &pluginapi.Empty{})
	reports := rate.NewLimiter(rate.Every(pause), reportBurst)
	for err == nil {
		var resp *pluginapi.ListAndWatchResponse
		if resp, err = stream.Recv(); err == nil {
			m.report(p, resp.GetDevices())
			select {
			case <-time.After(reports.Reserve().Delay()):
			case <-ctx.Done():
			}
		}
	}
	return shorten(err)
}

// report records the plugin's devices.
func (m *Manager) report(p *plugin, reported []*pluginapi.Device) {
	var all []ledger.Device
	nameless, long := 0, 0
	for _, d := range reported {
		switch n := len(d.GetID()); {
		case n == 0:
			nameless++
			continue
		case n > maxID:
			long++
			continue
		}
		if len(all) == maxDevices {
			m.config.Log.Info("a plugin has too many devices, and the last are left out", "resource", p.resource, "reported", len(reported), "limit", maxDevices)
			break
		}
		device := ledger.Device{ID: d.GetID(), Healthy: d.GetHealth() == pluginapi.Healthy}
		nodes := d.GetTopology().GetNodes()
		for _, node := range nodes[:min(len(nodes), maxNodes)] {
			device.NUMANodes = append(device.NUMANodes, node.GetID())
		}
		all = append(all, device)
	}
	if nameless > 0 {
		m.config.Log.Info("devices without an ID are left out", "resource", p.resource, "devices", nameless)
	}
	if long > 0 {
		m.config.Log.Info("devices with long IDs are left out", "resource", p.resource, "devices", long, "limit", maxID)
	}
	fit := 0
	m.update(p, func() []types.UID {
		for room := m.ledger.Room(p.resource, resourceShare, devicePool); fit < len(all); fit++ {
			if room -= all[fit].Size(); room < 0 {
				break
			}
		}
		return m.ledger.Report(p.resource, all[:fit])
	})
	if fit < len(all) {
		m.config.Log.Info("plugins have too many devices, and the last are left out", "resource", p.resource, "devices", len(all)-fit)
	}
	if err := m.saveKnown(); err != nil {
		m.config.Log.Error(err, "the list of devices cannot be saved", "resource", p.resource)
	}
}

// disconnect records that a plugin has disconnected, unless a newer one has replaced it. It records nothing when the manager
// itself stops.
func (m *Manager) disconnect(running context.Context, p *plugin, cause error) {
	m.config.Log.Info("device plugin disconnected", "resource", p.resource, "cause", cause.Error())
	m.update(p, func() []types.UID {
		delete(m.plugins, p.resource)
		concerned := m.ledger.Disconnect(p.resource, time.Now())
		if running.Err() != nil {
			return nil
		}
		return concerned
	})
	p.end()
	_ = p.conn.Close()
}

// update applies a change to the ledger if the plugin is the current one of its resource, and notifies the loop of the
// affected pods.
func (m *Manager) update(p *plugin, change func() []types.UID) {
	m.mu.Lock()
	if m.plugins[p.resource] != p {
		m.mu.Unlock()
		return
	}
	concerned, notify := change(), m.notify
	m.notifyWaiters()
	m.mu.Unlock()
	for _, uid := range concerned {
		notify(uid)
	}
}

// call calls a resource's plugin, with a timeout.
func (m *Manager) call(ctx context.Context, resource, method string, do func(ctx context.Context, p *plugin) error) error {
	m.mu.Lock()
	p := m.plugins[resource]
	m.mu.Unlock()
	if p == nil {
		return fmt.Errorf("the plugin of %s is not registered", resource)
	}
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if err := do(ctx, p); err != nil {
		return fmt.Errorf("%s of the plugin of %s: %w", method, resource, shorten(err))
	}
	return nil
}
