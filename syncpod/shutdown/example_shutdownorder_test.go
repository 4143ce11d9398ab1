package shutdown_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/shutdown"
)

// The last ten of thirty seconds are for critical pods.
func ExampleOrder() {
	grace := int64(60)
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace}}
	dns := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}, Spec: v1.PodSpec{PriorityClassName: "system-node-critical"}}
	for _, group := range shutdown.Order([]*v1.Pod{dns, web}, shutdown.Policy{GracePeriod: 30 * time.Second, CriticalGracePeriod: 10 * time.Second}) {
		fmt.Println(group)
	}
	// Output:
	// priority 0 and more, gone after 20s: default/web within 20 s
	// priority 2000000000 and more, gone after 30s: kube-system/dns within 10 s
}
