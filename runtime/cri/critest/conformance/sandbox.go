package conformance

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var sandboxRules = []rule{
	{"sandbox-ready", "When RunPodSandbox has returned, the sandbox is READY and has an address.", checkSandboxReady},
	{"sandbox-echo", "Status and list of a sandbox give back metadata, labels and annotations as they were given; the runtime may add labels of its own.", checkSandboxEcho},
	{"sandbox-node-network", "A sandbox on the node's network has no address of its own.", checkNodeNetwork},
	{"sandbox-addresses", "Two sandboxes that are READY have different addresses.", checkAddresses},
	{"sandbox-name-taken", "RunPodSandbox with a name, namespace, UID and attempt that exist never makes a second sandbox: it fails or returns the first.", checkSandboxNameTaken},
	{"sandbox-next-attempt", "A sandbox of the next attempt can be run beside a stopped one of the same pod.", checkNextAttempt},
	{"sandbox-handler-unknown", "RunPodSandbox with a runtime handler that the node does not have fails and leaves nothing.", checkHandlerUnknown},
	{"sandbox-filter", "ListPodSandbox lists what matches all of ID, state and every label of its filter, and nothing else.", checkSandboxFilter},
}

func checkSandboxReady(b *bench) {
	before := time.Now()
	st := b.sandboxStatusOf(b.runSandbox(0).id)
	if st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		b.broken("its state is %v", st.GetState())
	}
	if _, err := netip.ParseAddr(st.GetNetwork().GetIp()); err != nil {
		b.broken("its address is no address: %v", err)
	}
	if at := time.Unix(0, st.GetCreatedAt()); at.Before(before.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
		b.broken("it says that it was created at %v", at)
	}
}

func checkSandboxEcho(b *bench) {
	p := b.runSandbox(3)
	st := b.sandboxStatusOf(p.id)
	if !proto.Equal(st.GetMetadata(), p.config.GetMetadata()) || !contains(st.GetLabels(), p.config.GetLabels()) ||
		!maps.Equal(st.GetAnnotations(), p.config.GetAnnotations()) {
		b.broken("the status has %v, %v, %v", st.GetMetadata(), st.GetLabels(), st.GetAnnotations())
	}
	resp, err := b.rt.ListPodSandbox(b.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: p.id}})
	b.must(err)
	if len(resp.GetItems()) != 1 {
		b.broken("%d sandboxes are listed under its ID", len(resp.GetItems()))
	}
	it := resp.GetItems()[0]
	if !proto.Equal(it.GetMetadata(), p.config.GetMetadata()) || !contains(it.GetLabels(), p.config.GetLabels()) ||
		!maps.Equal(it.GetAnnotations(), p.config.GetAnnotations()) || it.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		b.broken("the list has %v, %v, %v, %v", it.GetMetadata(), it.GetLabels(), it.GetAnnotations(), it.GetState())
	}
}

// contains reports whether all of part is in m.
func contains(m, part map[string]string) bool {
	for k, v := range part {
		if got, ok := m[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func checkNodeNetwork(b *bench) {
	st := b.sandboxStatusOf(b.runSandbox(0, onNode).id)
	if st.GetNetwork().GetIp() != "" || len(st.GetNetwork().GetAdditionalIps()) > 0 {
		b.broken("it has %v", st.GetNetwork())
	}
	if got := st.GetLinux().GetNamespaces().GetOptions().GetNetwork(); got != runtimeapi.NamespaceMode_NODE {
		b.broken("its status says that its network is %v", got)
	}
}

func checkAddresses(b *bench) {
	one, two := b.runSandbox(0), b.runSandbox(1)
	if a, c := b.sandboxStatusOf(one.id).GetNetwork().GetIp(), b.sandboxStatusOf(two.id).GetNetwork().GetIp(); a == c {
		b.broken("both have %q", a)
	}
}

func checkSandboxNameTaken(b *bench) {
	p := b.runSandbox(0)
	resp, err := b.rt.RunPodSandbox(b.Context(), &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err == nil && resp.GetPodSandboxId() != p.id {
		b.broken("it made %s beside %s", resp.GetPodSandboxId(), p.id)
	}
	if got := b.listSandboxes(b.mine()); !slices.Equal(got, []string{p.id}) {
		b.broken("%d sandboxes are listed", len(got))
	}
}

// mine selects the objects that the rule has created.
func (b *bench) mine() *runtimeapi.PodSandboxFilter {
	return &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelUID: b.uid}}
}

func checkNextAttempt(b *bench) {
	one := b.runSandbox(0)
	b.must(b.stopSandboxIt(one.id))
	two := b.runSandbox(1)
	if st := b.sandboxStatusOf(two.id); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY || st.GetMetadata().GetAttempt() != 1 {
		b.broken("the second one is %v", st)
	}
	if got := b.listSandboxes(b.mine()); len(got) != 2 {
		b.broken("%d sandboxes are listed", len(got))
	}
}

func checkHandlerUnknown(b *bench) {
	_, err := b.rt.RunPodSandbox(b.Context(), &runtimeapi.RunPodSandboxRequest{
		Config: b.sandboxConfig(0), RuntimeHandler: "no-such-handler",
	})
	if err == nil {
		b.broken("it succeeded")
	}
	if got := b.listSandboxes(b.mine()); len(got) != 0 {
		b.broken("%d sandboxes are listed", len(got))
	}
}

func checkSandboxFilter(b *bench) {
	ready, stopped := b.runSandbox(0), b.runSandbox(1)
	b.must(b.stopSandboxIt(stopped.id))
	state := func(s runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: s}
	}
	labels := map[string]string{labelUID: b.uid}
	for _, tc := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		{"UID", &runtimeapi.PodSandboxFilter{LabelSelector: labels}, []string{ready.id, stopped.id}},
		{"UID and READY", &runtimeapi.PodSandboxFilter{LabelSelector: labels, State: state(runtimeapi.PodSandboxState_SANDBOX_READY)}, []string{ready.id}},
		{"UID and NOTREADY", &runtimeapi.PodSandboxFilter{LabelSelector: labels, State: state(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)}, []string{stopped.id}},
		{"ID and another state", &runtimeapi.PodSandboxFilter{Id: ready.id, State: state(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)}, nil},
		{"a label too many", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelUID: b.uid, "no": "such"}}, nil},
	} {
		if got := b.listSandboxes(tc.filter); !sameIDs(got, tc.want) {
			b.broken("by %s it lists %d, not %d, or others", tc.name, len(got), len(tc.want))
		}
	}
}

func sameIDs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
