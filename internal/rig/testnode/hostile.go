package testnode

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Hostile changes a runtime's answers at random, field by field, as an attacker
// who controls the runtime could. It is safe for concurrent use.
type Hostile struct {
	mu     sync.Mutex
	random *rand.Rand
	// Rate is the part of the fields that are changed, 0 for none.
	rate float64
	// texts are some texts of earlier messages, such as IDs and labels of other objects.
	texts []string
	// huge is how many bytes of huge texts there may still be.
	huge int
}

// NewHostile returns what changes so many of the fields, from a seed.
func NewHostile(seed uint64, rate float64) *Hostile {
	return &Hostile{random: rand.New(rand.NewPCG(seed, 24)), rate: rate, huge: 64 << 20}
}

// SetRate changes how many of the fields are changed from now on.
func (h *Hostile) SetRate(rate float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rate = rate
}

// Change changes a message in place.
func (h *Hostile) Change(answer any) {
	m, ok := answer.(proto.Message)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rate > 0 {
		h.message(m.ProtoReflect(), 0)
	}
}

// Unary is the interceptor of a connection for calls with one answer.
func (h *Hostile) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	h.Change(reply)
	return nil
}

// Stream is the interceptor of a connection for calls with many answers.
func (h *Hostile) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	return hostileStream{stream, h}, err
}

type hostileStream struct {
	grpc.ClientStream
	hostile *Hostile
}

// RecvMsg receives a message and changes it.
func (s hostileStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.hostile.Change(m)
	}
	return err
}

func (h *Hostile) hit() bool { return h.random.Float64() < h.rate }

const maxHostileDepth = 12

func (h *Hostile) message(m protoreflect.Message, depth int) {
	if depth > maxHostileDepth {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case h.hit() && h.random.IntN(3) == 0:
			m.Clear(f)
		case f.IsMap():
			h.labels(m, f)
		case f.IsList():
			h.list(m, f, depth)
		case f.Message() != nil:
			if m.Has(f) || h.hit() && depth < maxHostileDepth/2 {
				h.message(m.Mutable(f).Message(), depth+1)
			}
		case h.hit():
			m.Set(f, h.scalar(f))
		case f.Kind() == protoreflect.StringKind:
			h.remember(m.Get(f).String())
		}
	}
}

func (h *Hostile) list(m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	list := m.Mutable(f).List()
	for i := range list.Len() {
		if f.Message() != nil {
			h.message(list.Get(i).Message(), depth+1)
		} else if h.hit() {
			list.Set(i, h.scalar(f))
		}
	}
	if !h.hit() {
		return
	}
	switch h.random.IntN(4) {
	case 0: // an empty entry
		list.Append(list.NewElement())
	case 1: // the same many times
		for n := list.Len(); n > 0 && list.Len() < 200; {
			list.Append(list.Get(h.random.IntN(n)))
		}
	case 2: // only some
		list.Truncate(h.random.IntN(list.Len() + 1))
	case 3: // in another order
		for i := range list.Len() {
			j := h.random.IntN(i + 1)
			a, b := list.Get(i), list.Get(j)
			list.Set(i, b)
			list.Set(j, a)
		}
	}
}

// labels changes the keys and values of a map of texts.
func (h *Hostile) labels(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	if f.MapKey().Kind() != protoreflect.StringKind || f.MapValue().Kind() != protoreflect.StringKind {
		return
	}
	labels := m.Mutable(f).Map()
	var keys []protoreflect.MapKey
	labels.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		h.remember(v.String())
		keys = append(keys, k)
		return true
	})
	for _, k := range keys {
		if h.hit() {
			labels.Set(k, protoreflect.ValueOfString(h.text()))
		}
	}
	if h.hit() {
		labels.Set(protoreflect.ValueOfString(h.text()).MapKey(), protoreflect.ValueOfString(h.text()))
	}
}

func (h *Hostile) remember(text string) {
	if text == "" || len(text) > 1000 {
		return
	}
	if len(h.texts) < 500 {
		h.texts = append(h.texts, text)
	} else {
		h.texts[h.random.IntN(len(h.texts))] = text
	}
}

func (h *Hostile) text() string {
	switch h.random.IntN(8) {
	case 0:
		return ""
	case 1:
		return "../../etc/passwd"
	case 2:
		return "\xff\xfe\x00"
	case 3:
		return "-1"
	case 4:
		if size := 1 << (10 + h.random.IntN(15)); size < h.huge { // up to 16 MiB
			h.huge -= size
			return strings.Repeat("x", size)
		}
	}
	if len(h.texts) == 0 {
		return "{"
	}
	return h.texts[h.random.IntN(len(h.texts))]
}

func (h *Hostile) number() int64 {
	return []int64{0, -1, 1, 137, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, 1e18, -1e18}[h.random.IntN(10)]
}

func (h *Hostile) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch n := h.number(); f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(math.Inf(-1)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.NaN())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(h.text()))
	default:
		return protoreflect.ValueOfString(h.text())
	}
}
