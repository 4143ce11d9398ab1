package podworkers

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// newExplorer returns an explorer with two pods; the given number of them are static.
func newExplorer(statics int) *explorer {
	x := &explorer{pods: []types.UID{"a", "b"}, seed: maphash.MakeSeed(), seen: map[[2]uint64]struct{}{}}
	for i, uid := range x.pods {
		make := pod
		if i < statics {
			make = static
		}
		x.addEvents(uid, make)
	}
	x.add("no pod is wanted", func(e *explored) bool { return e.known() })
	x.add("both are wanted", func(e *explored) bool { return e.known(x.pods...) })
	return x
}

func (x *explorer) add(name string, do func(*explored) bool) {
	x.events = append(x.events, exploredEvent{name, do})
}

// mostOpen is the maximum number of requests that wait at the same time.
const mostOpen = 2

func (x *explorer) addEvents(uid types.UID, make func(types.UID) *v1.Pod) {
	plain, deleted, over := make(uid), make(uid), make(uid)
	plain.Spec.TerminationGracePeriodSeconds, plain.ResourceVersion = ptr(int64(20)), "plain"
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds, deleted.ResourceVersion = &metav1.Time{Time: now}, ptr(int64(10)), "deleted"
	over.Status.Phase, over.ResourceVersion = v1.PodFailed, "over"
	inRuntime := &RuntimePod{UID: uid, Name: plain.Name, Namespace: plain.Namespace}
	say := func(what string, u Update, ask bool) {
		x.add(fmt.Sprintf("%s: %s", uid, what), func(e *explored) bool {
			if ask && len(e.open) >= mostOpen {
				return false
			}
			e.update(u, uid, ask)
			return true
		})
	}
	say("create", Update{Type: Create, Pod: plain}, false)
	say("create, the runtime has it", Update{Type: Create, Pod: plain, RuntimePod: inRuntime}, false)
	say("update", Update{Type: Changed, Pod: plain}, false)
	say("delete", Update{Type: Changed, Pod: deleted}, true)
	say("over, nothing runs", Update{Type: Create, Pod: over, Status: &runtime.PodStatus{}}, false)
	say("over", Update{Type: Changed, Pod: over}, false)
	say("evict", Update{Type: Kill, Pod: plain, Stop: &StopRequest{Evict: true, GracePeriodSeconds: ptr(int64(1))}}, true)
	say("kill", Update{Type: Kill, Pod: plain, Stop: &StopRequest{GracePeriodSeconds: ptr(int64(30))}}, true)
	say("kill the runtime's", Update{Type: Kill, RuntimePod: inRuntime}, true)
	x.add(string(uid)+": it runs and should not", func(e *explored) bool {
		e.follow(uid, e.set.KillRuntimePod(now, *inRuntime))
		return true
	})
	x.add(string(uid)+": only it is wanted", func(e *explored) bool { return e.known(uid) })
	x.add(string(uid)+": begin", func(e *explored) bool { return e.next(uid) })
	for _, end := range []struct {
		name string
		o    Outcome
	}{{"fail", Failed}, {"succeed", Succeeded}, {"succeed, it is over", SucceededTerminal}} {
		x.add(fmt.Sprintf("%s: %s", uid, end.name), func(e *explored) bool { return e.done(uid, end.o) })
	}
	x.add(string(uid)+": abandon", func(e *explored) bool { return e.abandon(uid) })
	x.add(string(uid)+": abandoned work returns", func(e *explored) bool { return e.returns(uid) })
	x.add(string(uid)+": remains are found", func(e *explored) bool { return e.orphan(uid, *inRuntime) })
	x.add(string(uid)+": try again", func(e *explored) bool { return e.requeue(uid) })
}

// key returns a hash of the state. States that differ only in the numbers of work and requests, and in memory
// addresses, have the same hash.
func (x *explorer) key(e *explored) [2]uint64 {
	var b strings.Builder
	c := canon{&b, map[StopID]int{}}
	c.write(reflect.ValueOf(e.set.pods))
	c.write(reflect.ValueOf(e.set.statics))
	c.write(reflect.ValueOf(e.set.synced))
	for _, uid := range e.pods {
		_, busy := e.busy[uid]
		_, late := e.late[uid]
		fmt.Fprint(&b, busy, late, e.ready[uid], e.failed[uid], e.refused[uid], e.lives[uid], ';')
	}
	return [2]uint64{maphash.String(x.seed, b.String()), maphash.String(x.seed, "again"+b.String())}
}

// canon writes values of any kind, so that later fields of a state are included, too.
type canon struct {
	*strings.Builder
	ids map[StopID]int
}

func (c canon) write(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[uint64]():
		fmt.Fprint(c, v.IsZero(), ' ')
		return
	case v.Type() == reflect.TypeFor[StopID]():
		id := StopID(v.Uint())
		if _, met := c.ids[id]; !met {
			c.ids[id] = len(c.ids)
		}
		fmt.Fprint(c, c.ids[id], ' ')
		return
	case v.Type() == reflect.TypeFor[time.Time]():
		fmt.Fprint(c, v.Field(0).Uint(), v.Field(1).Int(), ' ')
		return
	case v.Type() == reflect.TypeFor[*v1.Pod]() && !v.IsNil():
		fmt.Fprint(c, v.Elem().FieldByName("ResourceVersion").String(), ' ')
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			c.WriteString("nil ")
			return
		}
		c.write(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			c.write(v.Field(i))
		}
	case reflect.Slice:
		fmt.Fprint(c, v.Len(), '[')
		for i := range v.Len() {
			c.write(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		fmt.Fprint(c, len(keys), '{')
		for _, k := range keys {
			c.WriteString(k.String())
			c.WriteByte(' ')
			c.write(v.MapIndex(k))
		}
	case reflect.Bool:
		fmt.Fprint(c, v.Bool(), ' ')
	case reflect.String:
		c.WriteString(v.String())
		c.WriteByte(' ')
	case reflect.Int, reflect.Int32, reflect.Int64:
		fmt.Fprint(c, v.Int(), ' ')
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		fmt.Fprint(c, v.Uint(), ' ')
	default:
		panic("no form for " + v.Type().String())
	}
}
