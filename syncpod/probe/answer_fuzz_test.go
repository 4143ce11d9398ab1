package probe

import (
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// FuzzHealthAnswer: an answer of a health service is understood, or refused, as the generated code
// does it.
func FuzzHealthAnswer(f *testing.F) {
	for _, text := range []string{"", "\x08\x01", "\x08\x01\x08\x02", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\x03abc\x08\x01", "\x0b\x0b\x0c\x0c\x08\x01", "\x08"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got healthAnswer
		var want grpc_health_v1.HealthCheckResponse
		err, wantErr := healthCodec{}.Unmarshal(text, &got), proto.Unmarshal(text, &want)
		if (err == nil) != (wantErr == nil) || err == nil && int32(got) != int32(want.GetStatus()) {
			t.Errorf("%q is %d, %v; want %d, %v", text, got, err, want.GetStatus(), wantErr)
		}
	})
}
