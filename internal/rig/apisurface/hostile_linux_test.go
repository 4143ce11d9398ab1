package apisurface

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/creation"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/runtime/gc"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/image/keyring"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/runtime/logs/rotate"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/runtime/websocket"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/credentialprovider"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/eviction/manager"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/memory/keeper"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/oom"
	"github.com/podsync/podsync/syncpod/page"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/podspec/resources"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/recorder"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/shutdown"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/status"
	"github.com/podsync/podsync/syncpod/status/summary"
	"github.com/podsync/podsync/syncpod/store"
	"github.com/podsync/podsync/syncpod/timeline"
	"github.com/podsync/podsync/syncpod/topology"
	"github.com/podsync/podsync/syncpod/userns"
	"github.com/podsync/podsync/syncpod/volume"
	"github.com/podsync/podsync/syncpod/volume/local"
	"github.com/podsync/podsync/syncpod/worker"
)

// functions are the exported functions of the library by their names in docs/api/next.txt, without the test kit, and without
// those that change the mounts of the machine.
var functions = map[string]any{
	"actions.Compute":                           actions.Compute,
	"actions.Effects":                           actions.Effects,
	"actions.Explain":                           actions.Explain,
	"actions.ExplainPod":                        actions.ExplainPod,
	"actions.FindContainer":                     actions.FindContainer,
	"actions.HasRunOnce":                        actions.HasRunOnce,
	"actions.KillMessage":                       actions.KillMessage,
	"actions.RestartAllRequested":               actions.RestartAllRequested,
	"actions.RestartsAfter":                     actions.RestartsAfter,
	"actions.SandboxFault":                      actions.SandboxFault,
	"actions.Why":                               actions.Why,
	"backoff.New":                               backoff.New[string],
	"podworkers.Deleted":                        podworkers.Deleted,
	"podworkers.New":                            podworkers.New,
	"podworkers.NewDesired":                     podworkers.NewDesired,
	"runtime.AllContainers":                     runtime.AllContainers,
	"runtime.CheckRuntimeName":                  runtime.CheckRuntimeName,
	"runtime.FindContainer":                     runtime.FindContainer,
	"runtime.HashContainer":                     runtime.HashContainer,
	"runtime.IsCritical":                        runtime.IsCritical,
	"runtime.IsSidecar":                         runtime.IsSidecar,
	"runtime.IsStatic":                          runtime.IsStatic,
	"runtime.IsTerminal":                        runtime.IsTerminal,
	"runtime.ParseContainerID":                  runtime.ParseContainerID,
	"runtime.ResourcesOf":                       runtime.ResourcesOf,
	"runtime/cri.Ambiguous":                     cri.Ambiguous,
	"runtime/cri.Classify":                      cri.Classify,
	"runtime/cri.Dial":                          cri.Dial,
	"runtime/cri.IgnoreNotFound":                cri.IgnoreNotFound,
	"runtime/cri.New":                           cri.New,
	"runtime/cri.NewClient":                     cri.NewClient,
	"runtime/cri.Withhold":                      cri.Withhold,
	"runtime/cri/creation.NameTaken":            creation.NameTaken,
	"runtime/foreign.Cut":                       foreign.Cut,
	"runtime/foreign.CutText":                   foreign.CutText,
	"runtime/foreign.Error":                     foreign.Error,
	"runtime/foreign.ErrorWith":                 foreign.ErrorWith,
	"runtime/foreign.Line":                      foreign.Line,
	"runtime/foreign.Text":                      foreign.Text,
	"runtime/foreign.Word":                      foreign.Word,
	"runtime/foreign/lines.Bound":               lines.Bound,
	"runtime/gc.Decide":                         gc.Decide,
	"runtime/gc.New":                            gc.New,
	"runtime/hostfs.Element":                    hostfs.Element,
	"runtime/hostfs.Names":                      hostfs.Names,
	"runtime/hostfs.Open":                       hostfs.Open,
	"runtime/hostfs.OpenPath":                   hostfs.OpenPath,
	"runtime/hostfs.Quote":                      hostfs.Quote,
	"runtime/hostfs.Read":                       hostfs.Read,
	"runtime/hostfs.ReadPath":                   hostfs.ReadPath,
	"runtime/hostfs.Relative":                   hostfs.Relative,
	"runtime/hostfs.Replace":                    hostfs.Replace,
	"runtime/hostfs.Resolve":                    hostfs.Resolve,
	"runtime/hostfs.SyncDir":                    hostfs.SyncDir,
	"runtime/hostfs.Temporary":                  hostfs.Temporary,
	"runtime/hostfs.Write":                      hostfs.Write,
	"runtime/hostfs/mounts.At":                  mounts.At,
	"runtime/hostfs/mounts.Below":               mounts.Below,
	"runtime/hostfs/mounts.Of":                  mounts.Of,
	"runtime/hostfs/mounts.Shared":              mounts.Shared,
	"runtime/image.DecideGC":                    image.DecideGC,
	"runtime/image.New":                         image.New,
	"runtime/image.NewCollector":                image.NewCollector,
	"runtime/image/keyring.Matches":             keyring.Matches,
	"runtime/image/keyring.New":                 keyring.New,
	"runtime/image/keyring.Of":                  keyring.Of,
	"runtime/image/keyring.ParseImageName":      keyring.ParseImageName,
	"runtime/image/keyring.Repository":          keyring.Repository,
	"runtime/logs.Attempts":                     logs.Attempts,
	"runtime/logs.Validate":                     logs.Validate,
	"runtime/logs/rotate.Decide":                rotate.Decide,
	"runtime/logs/rotate.New":                   rotate.New,
	"runtime/pleg.New":                          pleg.New,
	"runtime/pleg.NewEvents":                    pleg.NewEvents,
	"runtime/reader.ContainerStatus":            reader.ContainerStatus,
	"runtime/reader.New":                        reader.New,
	"runtime/reader.SandboxStatus":              reader.SandboxStatus,
	"runtime/stats.New":                         stats.New,
	"runtime/stats.StatFS":                      stats.StatFS,
	"runtime/websocket.Accept":                  websocket.Accept,
	"runtime/websocket.Check":                   websocket.Check,
	"runtime/websocket.Dial":                    websocket.Dial,
	"runtime/websocket.Is":                      websocket.Is,
	"runtime/websocket.Refuse":                  websocket.Refuse,
	"sandbox.BuildPodLogsDirectory":             sandbox.BuildPodLogsDirectory,
	"sandbox.GeneratePodHostname":               sandbox.GeneratePodHostname,
	"sandbox.GeneratePodSandboxConfig":          sandbox.GeneratePodSandboxConfig,
	"sandbox.GetPodDNS":                         sandbox.GetPodDNS,
	"sandbox.LookupRuntimeHandler":              sandbox.LookupRuntimeHandler,
	"sandbox.ParseResolvConf":                   sandbox.ParseResolvConf,
	"sandbox/run.New":                           run.New,
	"syncpod.New":                               syncpod.New,
	"syncpod.NewFileRecords":                    syncpod.NewFileRecords,
	"syncpod/agent.New":                         agent.New,
	"syncpod/cgroup.ClassName":                  cgroup.ClassName,
	"syncpod/cgroup.Larger":                     cgroup.Larger,
	"syncpod/cgroup.MilliCPUToQuota":            cgroup.MilliCPUToQuota,
	"syncpod/cgroup.MilliCPUToShares":           cgroup.MilliCPUToShares,
	"syncpod/cgroup.PageFile":                   cgroup.PageFile,
	"syncpod/cgroup.ParseName":                  cgroup.ParseName,
	"syncpod/cgroup.PodName":                    cgroup.PodName,
	"syncpod/cgroup.ResourceConfigForNode":      cgroup.ResourceConfigForNode,
	"syncpod/cgroup.ResourceConfigForPod":       cgroup.ResourceConfigForPod,
	"syncpod/cgroup.ResourceConfigForQOSClass":  cgroup.ResourceConfigForQOSClass,
	"syncpod/cgroup.Settings":                   cgroup.Settings,
	"syncpod/cgroup.SharesToWeight":             cgroup.SharesToWeight,
	"syncpod/cgroup.WeightToShares":             cgroup.WeightToShares,
	"syncpod/cgroup/tree.DriverOf":              tree.DriverOf,
	"syncpod/cgroup/tree.New":                   tree.New,
	"syncpod/container.AppArmorProfile":         container.AppArmorProfile,
	"syncpod/container.CheckRecorded":           container.CheckRecorded,
	"syncpod/container.GenerateContainerConfig": container.GenerateContainerConfig,
	"syncpod/container.LogPath":                 container.LogPath,
	"syncpod/container.VerifyRunAsNonRoot":      container.VerifyRunAsNonRoot,
	"syncpod/container/env.Expand":              env.Expand,
	"syncpod/container/env.FieldValue":          env.FieldValue,
	"syncpod/container/env.FromServices":        env.FromServices,
	"syncpod/container/env.Lookup":              env.Lookup[env.Var],
	"syncpod/container/env.MakeEnvironment":     env.MakeEnvironment,
	"syncpod/container/env.NotFound":            env.NotFound,
	"syncpod/container/env.ResourceValue":       env.ResourceValue,
	"syncpod/container/env.Unavailable":         env.Unavailable,
	"syncpod/container/start.New":               start.New,
	"syncpod/container/start.NewStarter":        start.NewStarter,
	"syncpod/container/start.ScanLogs":          start.ScanLogs,
	"syncpod/credentialprovider.New":            credentialprovider.New,
	"syncpod/device.New":                        device.New,
	"syncpod/eviction.Admit":                    eviction.Admit,
	"syncpod/eviction.Decide":                   eviction.Decide,
	"syncpod/eviction.DefaultHard":              eviction.DefaultHard,
	"syncpod/eviction.HasStorageLimits":         eviction.HasStorageLimits,
	"syncpod/eviction.Interval":                 eviction.Interval,
	"syncpod/eviction.OfDisk":                   eviction.OfDisk,
	"syncpod/eviction.ParsePolicy":              eviction.ParsePolicy,
	"syncpod/eviction.Preempt":                  eviction.Preempt,
	"syncpod/eviction.Rank":                     eviction.Rank,
	"syncpod/eviction.ResourceOf":               eviction.ResourceOf,
	"syncpod/eviction/manager.New":              manager.New,
	"syncpod/lifecycle.ContainerGrace":          lifecycle.ContainerGrace,
	"syncpod/lifecycle.New":                     lifecycle.New,
	"syncpod/lifecycle.PodGrace":                lifecycle.PodGrace,
	"syncpod/lifecycle/handler.Address":         handler.Address,
	"syncpod/lifecycle/handler.New":             handler.New,
	"syncpod/lifecycle/handler.Port":            handler.Port,
	"syncpod/lifecycle/handler.PreStop":         handler.PreStop,
	"syncpod/loop.New":                          loop.New,
	"syncpod/loop.PreviewStored":                loop.PreviewStored,
	"syncpod/memory.Earliest":                   memory.Earliest,
	"syncpod/memory.KeyOf":                      memory.KeyOf,
	"syncpod/memory.New":                        memory.New,
	"syncpod/memory.NewFailures":                memory.NewFailures[string],
	"syncpod/memory/keeper.New":                 keeper.New,
	"syncpod/oom.Parse":                         oom.Parse,
	"syncpod/poddir.New":                        poddir.New,
	"syncpod/page.New":                          page.New,
	"syncpod/page.Serve":                        page.Serve,
	"syncpod/status/summary.Of":                 summary.Of,
	"syncpod/podref.Container":                  podref.Container,
	"syncpod/podref.ContainerNamed":             podref.ContainerNamed,
	"syncpod/podref.Describe":                   podref.Describe,
	"syncpod/podref.Log":                        podref.Log,
	"syncpod/podref.Name":                       podref.Name,
	"syncpod/podref.Pod":                        podref.Pod,
	"syncpod/podspec.Default":                   podspec.Default,
	"syncpod/podspec.ParseQuantity":             podspec.ParseQuantity,
	"syncpod/podspec.References":                podspec.References,
	"syncpod/podspec.Static":                    podspec.Static,
	"syncpod/numamemory.New":                    numamemory.New,
	"syncpod/podspec.Validate":                  podspec.Validate,
	"syncpod/podspec.ValidateAdmitted":          podspec.ValidateAdmitted,
	"syncpod/podspec.ValidateQuantities":        podspec.ValidateQuantities,
	"syncpod/podspec/qos.Class":                 qos.Class,
	"syncpod/podspec/qos.FromSpec":              qos.FromSpec,
	"syncpod/podspec/resources.Count":           resources.Count,
	"syncpod/podspec/resources.Find":            resources.Find,
	"syncpod/podspec/resources.Requested":       resources.Requested,
	"syncpod/probe.New":                         probe.New,
	"syncpod/probe.NewChecker":                  probe.NewChecker,
	"syncpod/recorder.New":                      recorder.New,
	"syncpod/recorder.Read":                     recorder.Read,
	"syncpod/resize.Decide":                     resize.Decide,
	"syncpod/resize.New":                        resize.New,
	"syncpod/server.HandlerTransport":           server.HandlerTransport,
	"syncpod/server.New":                        server.New,
	"syncpod/server.NewStreams":                 server.NewStreams,
	"syncpod/server.WithUser":                   server.WithUser,
	"syncpod/shutdown.Order":                    shutdown.Order,
	"syncpod/source.NewAdmittedPush":            source.NewAdmittedPush,
	"syncpod/source.NewCheckpoint":              source.NewCheckpoint,
	"syncpod/source.NewFolder":                  source.NewFolder,
	"syncpod/source.NewPoll":                    source.NewPoll,
	"syncpod/source.NewPush":                    source.NewPush,
	"syncpod/source.NewStaticPush":              source.NewStaticPush,
	"syncpod/source.SetAPISource":               source.SetAPISource,
	"syncpod/source.YAMLToJSON":                 source.YAMLToJSON,
	"syncpod/status.Decides":                    status.Decides,
	"syncpod/status.IsOfNode":                   status.IsOfNode,
	"syncpod/status.DisruptionTarget":           status.DisruptionTarget,
	"syncpod/status.GeneratePodStatus":          status.GeneratePodStatus,
	"syncpod/status.Lost":                       status.Lost,
	"syncpod/status.Merge":                      status.Merge,
	"syncpod/status.Phase":                      status.Phase,
	"syncpod/status.ReadyConditions":            status.ReadyConditions,
	"syncpod/status.ReasonOf":                   status.ReasonOf,
	"syncpod/status.Rejected":                   status.Rejected,
	"syncpod/status.WithReported":               status.WithReported,
	"syncpod/store.NewFiles":                    store.NewFiles,
	"syncpod/timeline.New":                      timeline.New,
	"syncpod/cpu.New":                           cpu.New,
	"syncpod/cpu.ParseOptions":                  cpu.ParseOptions,
	"syncpod/cpu.ParseSet":                      cpu.ParseSet,
	"syncpod/cpu.Read":                          cpu.Read,
	"syncpod/cpu.SetOf":                         cpu.SetOf,
	"syncpod/topology.New":                      topology.New,
	"syncpod/topology.MaskOf":                   topology.MaskOf,
	"syncpod/userns.New":                        userns.New,
	"syncpod/volume.Directories":                volume.Directories,
	"syncpod/volume.KindOf":                     volume.KindOf,
	"syncpod/volume.TokenLifetime":              volume.TokenLifetime,
	"syncpod/volume.TokenRenewal":               volume.TokenRenewal,
	"syncpod/volume/local.FileKey":              local.FileKey,
	"syncpod/volume/local.New":                  local.New,
	"syncpod/worker.New":                        worker.New,
}

// mountsChange are the functions that the test leaves out.
var mountsChange = []string{"runtime/hostfs/mounts.Detach", "runtime/hostfs/mounts.Share", "syncpod/volume.ShareRoot"}

// TestNoArgumentPanics: each exported function, and each method of its results and of plain values, returns for each
// argument: nil, zero, or drawn, with numbers at their limits and texts that lead out of a directory. An error has a text.
func TestNoArgumentPanics(t *testing.T) {
	var missing []string
	for _, line := range public(t).lines {
		name, kind, _ := strings.Cut(line, " ")
		if _, after, _ := strings.Cut(name, "."); strings.HasPrefix(kind, "func") && !strings.Contains(after, ".") && !strings.Contains(name, "critest") {
			if functions[name] == nil && !slices.Contains(mountsChange, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 10 { // a few new ones may come from concurrent work
		t.Errorf("missing in functions: %q", missing)
	}
	t.Chdir(t.TempDir())
	_, conn := critest.Start(t, critest.Config{})
	root := must.Get(os.OpenRoot("."))(t)
	t.Cleanup(func() { _ = root.Close() })
	ctx, end := context.WithCancel(t.Context())
	end()
	g := &arguments{ctx: ctx, client: cri.NewClient(conn), root: root, plain: map[reflect.Type]bool{}}
	images := must.Get(image.New(image.Config{Settings: image.Settings{Runtime: g.client}}))(t)
	starter, err := start.NewStarter(start.StarterConfig{Images: images, Runtime: g.client, RuntimeName: "critest", Node: container.Node{MemoryBytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	startAll := reflect.ValueOf(func(ctx context.Context, pod start.Pod, steps []actions.StartStep) {
		for range starter.StartAll(ctx, pod, steps) {
		}
	})
	g.try(t, "syncpod/container/start.Starter", func() {
		g.call(t, "StartAll", startAll, false)
		g.methods(t, "Starter", reflect.ValueOf(starter))
	})
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := reflect.ValueOf(functions[name])
		for i := range f.Type().NumIn() {
			g.collect(f.Type().In(i))
		}
		for i := range f.Type().NumOut() {
			g.collect(f.Type().Out(i))
		}
		g.try(t, name, func() { g.call(t, name, f, true) })
	}
	for typ, plain := range g.plain {
		if !plain {
			continue
		}
		g.try(t, typ.String(), func() {
			v := reflect.New(typ)
			g.fill(v.Elem(), 6)
			g.methods(t, typ.String(), v)
		})
	}
}

// arguments draws arguments of any type.
type arguments struct {
	ctx    context.Context
	client *cri.Client
	root   *os.Root
	rand   *rand.Rand // nil draws zero values
	plain  map[reflect.Type]bool
}

const draws = 100

// try calls f with zero values and with drawn ones, until it panics.
func (g *arguments) try(t *testing.T, name string, f func()) {
	t.Helper()
	for seed := range uint64(draws) {
		if g.rand = rand.New(rand.NewPCG(seed, uint64(len(name)))); seed == 0 {
			g.rand = nil
		}
		panics := func() (panics bool) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s panics with draw %d: %v, at %s", name, seed, r, where())
					panics = true
				}
			}()
			f()
			return false
		}()
		if panics {
			return
		}
	}
}

// call makes one call, and calls the methods of its results.
func (g *arguments) call(t *testing.T, name string, f reflect.Value, deeper bool) {
	t.Helper()
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		args[i] = reflect.New(f.Type().In(i)).Elem()
		g.fill(args[i], 7)
	}
	run := f.Call
	if f.Type().IsVariadic() {
		run = f.CallSlice
	}
	for _, result := range run(args) {
		if err, isError := result.Interface().(error); isError && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%s returns an error without a text", name)
		}
		if deeper && result.Kind() == reflect.Pointer && !result.IsNil() && strings.HasPrefix(result.Type().Elem().PkgPath(), repository) {
			g.methods(t, name, result)
		}
	}
}

func (g *arguments) methods(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	for i := range v.NumMethod() {
		if m := v.Type().Method(i).Name; m != "Format" && m != "CloseWrite" {
			g.call(t, name+"."+m, v.Method(i), false)
		}
	}
}

// collect notes the plain types of this repository that t shows: structs without hidden fields, and named numbers and texts.
func (g *arguments) collect(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		g.collect(t.Elem())
	case reflect.Struct:
		if _, known := g.plain[t]; known || !strings.HasPrefix(t.PkgPath(), repository) || strings.Contains(t.PkgPath(), "critest") {
			return
		}
		g.plain[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			g.plain[t] = g.plain[t] && f.IsExported() && (!f.Anonymous || f.Type.Kind() == reflect.Struct)
			if f.IsExported() {
				g.collect(f.Type)
			}
		}
	case reflect.Func, reflect.Interface, reflect.Chan:
	default:
		if strings.HasPrefix(t.PkgPath(), repository) {
			g.plain[t] = true
		}
	}
}

// where returns the function of this repository that panicked.
func where() string {
	pcs := make([]uintptr, 50)
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, repository) || !more {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}

var texts = []string{"", "a", "app", "app", "$(../\x00\xff%s", "-1", "1", "10%", "Always", "OnFailure", "In", "cpu", "memory", "Guaranteed", "Burstable",
	"ClusterFirst", "None", "memory.available", "nodefs.available", "10.0.0.1", "metadata.annotations['a']", "limits.cpu", "/a/b", "containerd://a", "{}", "---", "sha256:a"}

// fill fills v. Contexts have ended, and what Go programs never pass as nil, such as an *http.Request, is there.
func (g *arguments) fill(v reflect.Value, depth int) {
	switch v.Type() {
	case reflect.TypeFor[context.Context]():
		v.Set(reflect.ValueOf(g.ctx))
		return
	case reflect.TypeFor[[]grpc.CallOption]():
		return
	case reflect.TypeFor[*os.Root]():
		v.Set(reflect.ValueOf(g.root))
		return
	case reflect.TypeFor[*http.Request]():
		v.Set(reflect.ValueOf(httptest.NewRequestWithContext(g.ctx, http.MethodGet, "http://node/exec", http.NoBody)))
		return
	case reflect.TypeFor[http.ResponseWriter]():
		v.Set(reflect.ValueOf(httptest.NewRecorder()))
		return
	case reflect.TypeFor[net.Conn]():
		conn, other := net.Pipe()
		_ = errors.Join(conn.Close(), other.Close())
		v.Set(reflect.ValueOf(conn))
		return
	case reflect.TypeFor[*bufio.Reader]():
		v.Set(reflect.ValueOf(bufio.NewReader(strings.NewReader("a"))))
		return
	}
	if depth == 0 || g.rand == nil || g.rand.IntN(4) == 0 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix([]int64{0, 1, time.Now().Unix(), math.MaxInt64 >> 1, math.MinInt64 >> 1}[g.rand.IntN(5)], 0)))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(*resource.NewQuantity(g.number(), resource.DecimalSI)))
		return
	case reflect.TypeFor[error]():
		v.Set(reflect.ValueOf([]error{errors.New("\x00"), fs.ErrNotExist, context.Canceled, cri.ErrNotFound}[g.rand.IntN(4)]))
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if client := reflect.ValueOf(g.client); client.Type().Implements(v.Type()) && v.NumMethod() > 0 {
			v.Set(client)
		}
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*cri.Client]() {
			v.Set(reflect.ValueOf(g.client))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		g.fill(v.Elem(), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				g.fill(v.Field(i), depth-1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		g.fill(v.Index(g.rand.IntN(2)), depth-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		g.fill(key, depth-1)
		g.fill(value, depth-1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(texts[g.rand.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(g.number() >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(g.number()) >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{-1, math.NaN(), math.Inf(1), 50}[g.rand.IntN(4)])
	}
}

// number returns a number at a limit, or a small one.
func (g *arguments) number() int64 {
	return []int64{math.MinInt64, math.MaxInt64, -1, 1, 1 << 40, 1 << 62}[g.rand.IntN(6)]
}
