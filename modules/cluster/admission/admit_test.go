package admission_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/cluster/admission"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
)

// An object is a Node in the API server. The node is registered if known is set.
type object struct{ known, newest *v1.Node }

func (o object) IsRegistered() bool { return o.known != nil }

func (o object) Object() *v1.Node { return o.known }

func (o object) Newest() *v1.Node {
	if o.newest != nil {
		return o.newest
	}
	return o.known
}

// admissionTo returns the admission to the node n1, which has two CPUs and takes three pods.
func admissionTo(o object) *admission.Admission {
	return &admission.Admission{Node: o, NodeName: "n1", Allocatable: podtest.Resources("cpu=2 memory=3Gi pods=3")}
}

func podOf(changes ...func(*v1.Pod)) *v1.Pod {
	pod := podtest.Pod("web", podtest.NodeName("n1"))
	for _, change := range changes {
		if change != nil {
			change(pod)
		}
	}
	return pod
}

func asks(cpu string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = podtest.Resources("cpu=" + cpu) }
}

func port(ip string, n int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostIP: ip, HostPort: n, Protocol: v1.ProtocolTCP}}
	}
}

// before returns a change that adds an init container, which it makes by applying change to a container.
func before(change func(*v1.Pod), restart *v1.ContainerRestartPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = podOf(change).Spec.Containers
		p.Spec.InitContainers[0].RestartPolicy = restart
	}
}

func sysctl(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
	}
}

// appArmor returns a change that requests a profile in a field of the pod, and in the annotation of a static pod.
func appArmor(profile v1.AppArmorProfileType, annotation string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: profile}}
		if annotation != "" {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file", v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "app": annotation}
		}
	}
}

// On a machine with AppArmor a pod may request a profile.
func TestAppArmorOfTheMachine(t *testing.T) {
	a := admissionTo(object{})
	a.AppArmor = true
	if refused := a.Admit(podOf(appArmor(v1.AppArmorProfileTypeRuntimeDefault, "")), nil); refused != nil {
		t.Errorf("%+v", refused)
	}
}

func TestAdmission(t *testing.T) {
	a := admissionTo(object{known: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}}}})
	for _, tt := range []struct {
		name   string
		pod    func(*v1.Pod)
		beside []func(*v1.Pod)
		want   string
	}{
		{"nothing asked", nil, nil, ""},
		{"fits exactly", asks("1"), []func(*v1.Pod){asks("1")}, ""},
		{"too much", asks("1001m"), []func(*v1.Pod){asks("1")}, "OutOfcpu"},
		{"too many", nil, make([]func(*v1.Pod), 3), "OutOfpods"},
		{"what the node does not know", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}, nil, ""},
		{"another system", func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }, nil, "PodOSNotSupported"},
		{"another label of the system", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelOSStable: "windows"} }, nil, "PodOSSelectorNodeLabelDoesNotMatch"},
		{"a label of the node", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, nil, ""},
		{"a label that it has not", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "tape"} }, nil, "NodeAffinity"},
		{"another node", func(p *v1.Pod) { p.Spec.NodeName = "n2" }, nil, "NodeName"},
		{"a port that is taken", port("", 80), []func(*v1.Pod){port("10.0.0.1", 80)}, "NodePorts"},
		{"a port at another address", port("10.0.0.2", 80), []func(*v1.Pod){port("10.0.0.1", 80)}, ""},
		{"a port of an init container", before(port("", 80), nil), []func(*v1.Pod){port("", 80)}, ""},
		{"a port of a sidecar", before(port("", 80), new(v1.ContainerRestartPolicyAlways)), []func(*v1.Pod){port("", 80)}, "NodePorts"},
		{"a safe sysctl", sysctl("kernel.shm_rmid_forced"), nil, ""},
		{"a sysctl of the node", sysctl("kernel.msgmax"), nil, "SysctlForbidden"},
		{"a sysctl of the node's network", func(p *v1.Pod) { sysctl("net.ipv4.tcp_syncookies")(p); p.Spec.HostNetwork = true }, nil, "SysctlForbidden"},
		{"a profile of AppArmor", appArmor(v1.AppArmorProfileTypeRuntimeDefault, ""), nil, "AppArmor"},
		{"a profile of AppArmor for a container", func(p *v1.Pod) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}
		}, nil, "AppArmor"},
		{"no confinement by AppArmor", appArmor(v1.AppArmorProfileTypeUnconfined, "unconfined"), nil, ""},
		{"a profile of AppArmor in an annotation", appArmor(v1.AppArmorProfileTypeUnconfined, "runtime/default"), nil, "AppArmor"},
	} {
		var activePods []*v1.Pod
		for _, change := range tt.beside {
			activePods = append(activePods, podOf(change))
		}
		got := ""
		if refused := a.Admit(podOf(tt.pod), activePods); refused != nil {
			got = refused.Reason
			if refused.Message == "" {
				t.Errorf("%s: there is no message", tt.name)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Before the node is registered, no pod is rejected for its labels or taints.
func TestE5_AdmissionBeforeTheNodeIsRegistered(t *testing.T) {
	a := admissionTo(object{})
	pod := podOf(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	if refused := a.Admit(pod, nil); refused != nil {
		t.Errorf("refused for %+v", refused)
	}
	if refused := a.Admit(podOf(asks("3")), nil); refused == nil || refused.Reason != "OutOfcpu" {
		t.Errorf("refused for %+v, want OutOfcpu", refused)
	}
	if refused := a.Admit(podOf(func(p *v1.Pod) { p.Spec.NodeName = "n2" }), nil); refused == nil || refused.Reason != "NodeName" {
		t.Errorf("a pod of another node is refused for %+v, want NodeName", refused)
	}
}

func TestTaints(t *testing.T) {
	a := admissionTo(object{known: tainted(v1.TaintEffectNoExecute, v1.TaintEffectNoSchedule)})
	if refused := a.Admit(podOf(), nil); refused == nil || refused.Reason != "TaintToleration" {
		t.Errorf("refused for %+v", refused)
	}
	tolerant := podOf(func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "out", Operator: v1.TolerationOpExists}} })
	if refused := a.Admit(tolerant, nil); refused != nil {
		t.Errorf("refused for %+v: it is bound already", refused)
	}
}

// tainted returns the Node n1 with a taint of each effect.
func tainted(effects ...v1.TaintEffect) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for i, effect := range effects {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: []string{"out", "busy"}[i], Effect: effect})
	}
	return node
}

// A pod that the last known Node rejects is checked again with the newest Node. For other pods the Node is not read again.
func TestTheNewestNodeCounts(t *testing.T) {
	a := admissionTo(object{known: tainted(v1.TaintEffectNoExecute), newest: tainted()})
	if refused := a.Admit(podOf(), nil); refused != nil {
		t.Errorf("refused for %+v: the newest Node has no taint", refused)
	}
	a = admissionTo(object{known: tainted(), newest: tainted(v1.TaintEffectNoExecute)})
	if refused := a.Admit(podOf(), nil); refused != nil {
		t.Errorf("refused for %+v, which was read though the last known Node takes the pod", refused)
	}
}
