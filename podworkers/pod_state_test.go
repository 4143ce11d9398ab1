package podworkers

import "testing"

func TestPodStateListsAllInOrder(t *testing.T) {
	s := PodState{Known: true, Phase: Terminated, Removal: Unwanted, waitsFor: "b", abandoned: 2}
	want := Terminated.String() + ": " + Unwanted.String() + "; it waits until pod b, which has its name, has ended" +
		"; containers that were found running are being stopped; 2 abandoned calls have not returned"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
