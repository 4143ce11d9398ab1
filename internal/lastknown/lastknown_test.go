package lastknown_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/syncpod/container/env"
)

type status metav1.StatusReason

func (s status) Error() string { return string(s) }

func (s status) Status() metav1.Status { return metav1.Status{Reason: metav1.StatusReason(s)} }

func TestSuffices(t *testing.T) {
	for _, tc := range []struct {
		err    error
		answer bool
	}{
		{errors.New("connection refused"), true},
		{context.DeadlineExceeded, true},
		{status(metav1.StatusReasonUnauthorized), true},
		{status(metav1.StatusReasonServiceUnavailable), true},
		{status(metav1.StatusReasonNotFound), false},
		{status(metav1.StatusReasonForbidden), false},
		{fmt.Errorf("key: %w", env.ErrNotFound), false},
	} {
		if got := lastknown.Suffices(t.Context(), lastknown.Answer, tc.err); got != tc.answer {
			t.Errorf("an answer, %v: %v", tc.err, got)
		}
		if !lastknown.Suffices(t.Context(), lastknown.Made, tc.err) {
			t.Errorf("something made, %v: it does not suffice", tc.err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if lastknown.Suffices(ended, lastknown.Made, errors.New("x")) {
		t.Error("a start that has ended starts something")
	}
}

// A source that hangs delays a start by Patience once, for all objects that are known, and is used again as soon as it answers.
func TestR1_SourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a lastknown.Answers[string, string]
		hangs := false
		ask := func(key string) (string, time.Duration, error) {
			began := time.Now()
			value, err := a.Ask(t.Context(), key, func(ctx context.Context) (string, error) {
				if hangs {
					<-ctx.Done()
					return "", context.Cause(ctx)
				}
				if key == "none" {
					return "", env.ErrNotFound
				}
				return key + "!", nil
			})
			return value, time.Since(began), err
		}
		for _, key := range []string{"a", "b", "none"} {
			ask(key)
		}
		hangs = true
		var all time.Duration
		for range 3 {
			for _, key := range []string{"a", "b", "none"} {
				value, took, err := ask(key)
				all += took
				if key == "none" && !env.NotFound(err) || key != "none" && value != key+"!" {
					t.Errorf("%s: %q, %v", key, value, err)
				}
			}
		}
		if all > lastknown.Patience+time.Second {
			t.Errorf("the answers took %v, want not much more than %v", all, lastknown.Patience)
		}
		hangs = false
		if value, took, err := ask("a"); value != "a!" || err != nil || took > 0 {
			t.Errorf("%q, %v after %v", value, err, took)
		}
		hangs = true
		time.Sleep(time.Minute)
		if _, took, _ := ask("b"); took != lastknown.Patience {
			t.Errorf("took %v, want %v", took, lastknown.Patience)
		}
	})
}

// Answers of other sizes than wanted are not remembered, and the rest stays.
func TestAnswersAreBounded(t *testing.T) {
	a := lastknown.Answers[int, string]{Size: func(s string) int { return len(s) }, Limit: 10}
	for i, value := range []string{"12345", "1234567", "12345", "x"} {
		_, _ = a.Ask(t.Context(), i, func(context.Context) (string, error) { return value, nil })
	}
	if all, _ := a.Known(); len(all) != 2 || all[0] != "12345" || all[2] != "12345" {
		t.Errorf("known: %v", all)
	}
	_, _ = a.Ask(t.Context(), 0, func(context.Context) (string, error) { return "1", nil })
	_, _ = a.Ask(t.Context(), 3, func(context.Context) (string, error) { return "1234", nil })
	if all, _ := a.Known(); len(all) != 3 {
		t.Errorf("known: %v", all)
	}
}
