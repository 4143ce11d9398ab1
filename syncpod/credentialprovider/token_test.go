package credentialprovider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// counted returns another token each time, or err.
type counted struct {
	n   int
	err error
}

func (c *counted) Token(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	c.n++
	return fmt.Sprint("t", c.n), c.err
}

// A token is cached until it must be renewed. While it cannot be renewed, it is used until it expires.
func TestTokenIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held tokens
		source := &counted{}
		want := func(token string, pod, account types.UID, audience string) {
			t.Helper()
			got, err := held.get(t.Context(), source, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod}}, account, audience)
			if got != token || (err == nil) != (token != "") {
				t.Errorf("token %q, %v, want %q", got, err, token)
			}
		}
		want("t1", "p", "a", "x")
		want("t1", "p", "a", "x")
		want("t2", "other", "a", "x")
		want("t3", "p", "new", "x")
		want("t4", "p", "a", "y")
		time.Sleep(48 * time.Minute)
		source.err = errors.New("the API server is unavailable")
		want("t1", "p", "a", "x")
		source.err = nil
		want("t6", "p", "a", "x")
		want("t6", "p", "a", "x")
		time.Sleep(time.Hour)
		source.err = errors.New("the API server is unavailable")
		want("", "p", "a", "x")
	})
}

func TestTokensAreBounded(t *testing.T) {
	var held tokens
	for i := range maxCached + 1 {
		if _, err := held.get(t.Context(), &counted{}, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}, "a", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if len(held.held) != maxCached {
		t.Errorf("%d tokens are held, want %d", len(held.held), maxCached)
	}
}
