package tracked

import (
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// post handles a POST to a subresource.
func (s *Store) post(r request, body []byte) (runtime.Object, error) {
	switch r.Resource + "/" + r.subresource {
	case "pods/binding":
		return decoded(body, &v1.Binding{}, func(b *v1.Binding) error { return s.bind(r, b) })
	case "pods/eviction":
		return decoded(body, &policyv1.Eviction{}, func(e *policyv1.Eviction) error {
			o := metav1.DeleteOptions{}
			if e.DeleteOptions != nil {
				o = *e.DeleteOptions
			}
			_, err := s.delete(r, o)
			return err
		})
	case "serviceaccounts/token":
		return decoded(body, &authenticationv1.TokenRequest{}, func(t *authenticationv1.TokenRequest) error {
			life := time.Hour
			if seconds := t.Spec.ExpirationSeconds; seconds != nil {
				life = time.Duration(*seconds) * time.Second
			}
			ends := time.Now().Add(life)
			t.Status.Token = fmt.Sprintf("clustertest:%s:%s:%d", r.namespace, r.name, ends.Unix())
			t.Status.ExpirationTimestamp = metav1.NewTime(ends)
			return nil
		})
	}
	return nil, r.notFound()
}

func decoded[T runtime.Object](body []byte, into T, do func(T) error) (runtime.Object, error) {
	if err := json.Unmarshal(body, into); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return into, do(into)
}

// bind binds a pod to a node. It fails if the pod is bound already.
func (s *Store) bind(r request, b *v1.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.subresource = ""
	old, err := s.get(r)
	if err != nil {
		return err
	}
	pod, ok := old.DeepCopyObject().(*v1.Pod)
	switch {
	case !ok:
		return r.notFound()
	case pod.DeletionTimestamp != nil:
		return r.conflict("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return r.conflict("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.Conditions = append(without(pod.Status.Conditions, v1.PodScheduled), v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	})
	return s.write(r, old, pod)
}

func without(conditions []v1.PodCondition, t v1.PodConditionType) (others []v1.PodCondition) {
	for _, c := range conditions {
		if c.Type != t {
			others = append(others, c)
		}
	}
	return others
}
