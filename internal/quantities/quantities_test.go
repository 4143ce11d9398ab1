package quantities

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheck(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "1": true, "100Mi": true, "9E": true, "9Ei": true, "1e30": true, "1E-9": true, "1e+0000012": true, "no quantity": true,
		"1e-266666600": false, "E266666600": false, "1E+100": false, "0.1e0000000000100": false, "1e100x": false,
	} {
		if err := Check(text); (err == nil) != ok {
			t.Errorf("%q: %v, want an error: %t", text, err, !ok)
		}
		if !ok && !Suspect([]byte(`{"a":"`+text+`"}`)) {
			t.Errorf("%q in JSON is not suspect", text)
		}
	}
	if Suspect([]byte(`{"image":"registry.test/app@sha256:00000000","memory":"100Mi","cpu":1e3}`)) {
		t.Error("a manifest like others is suspect")
	}
}

func TestCheckParsed(t *testing.T) {
	for _, text := range []string{"0", "1", "100Mi", "9E", "-9Ei", "1e99", "9.99e-99", "12345678901234567890123456789.123456789"} {
		q, same := resource.MustParse(text), resource.MustParse(text)
		if err := CheckParsed(q); err != nil || q.String() != same.String() {
			t.Errorf("%q: %v, and it is %s now", text, err, q.String())
		}
	}
	most := resource.MustParse(strings.Repeat("9", 96) + "e99")
	for range 10_000 {
		most.Add(resource.MustParse(strings.Repeat("9", 96) + "e99"))
	}
	most.Add(resource.MustParse("1n"))
	if err := CheckParsed(most); err != nil {
		t.Errorf("the sum of the largest quantities: %v", err)
	}
	for name, q := range map[string]resource.Quantity{
		"parsed":      resource.MustParse("1e1666660"),
		"negative":    resource.MustParse("-1e1666660"),
		"scaled":      *resource.NewScaledQuantity(1, 1666660),
		"zero":        *resource.NewScaledQuantity(0, math.MaxInt32),
		"fraction":    *resource.NewScaledQuantity(1, -1666660),
		"many digits": resource.MustParse(strings.Repeat("9", 1000)),
	} {
		if err := CheckParsed(q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzCheck: accepted texts are parsed, compared and written quickly.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"1", "100Mi", "1e-266666600", "E266666600", "1e99", "9.99e-99", "-0e9", "1E"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Check(text) != nil {
			return
		}
		begun := time.Now()
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		if err := CheckParsed(q); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		q.Cmp(resource.MustParse("1"))
		q.Add(resource.MustParse("1"))
		_, _, _ = q.Value(), q.MilliValue(), q.String()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%q takes %v", text, took)
		}
	})
}
