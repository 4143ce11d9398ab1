package probe

import (
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// FuzzHealthAnswer: the message that stands in for the answer of a health service reads or refuses
// the same bytes as the generated code of the answer, and has the same status.
func FuzzHealthAnswer(f *testing.F) {
	for _, text := range []string{"", "\x08\x01", "\x08\x01\x08\x02", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\x03abc\x08\x01", "\x0b\x0b\x0c\x0c\x08\x01", "\x08", "\x08\x81\x80\x80\x80\x10", "\x0a\x01\x03", "\x10\x03\x08\x01", "\xff", "nonsense"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got healthAnswer
		var want grpc_health_v1.HealthCheckResponse
		err, wantErr := proto.Unmarshal(text, &got), proto.Unmarshal(text, &want)
		if (err == nil) != (wantErr == nil) || err == nil && int32(got.GetValue()) != int32(want.GetStatus()) {
			t.Errorf("%q is %d, %v; want %d, %v", text, got.GetValue(), err, want.GetStatus(), wantErr)
		}
	})
}
