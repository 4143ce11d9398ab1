package spdy

import (
	"bytes"
	"errors"
	"hash/adler32"
	"io"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns both ends of an in-memory connection.
func pair(t *testing.T) (client, server *Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return Client(a), Server(b)
}

// next reads a message, which must have this kind and stream.
func next(t *testing.T, c *Conn, kind int, stream uint32) Message {
	t.Helper()
	m, err := c.Read()
	if err != nil || m.Kind != kind || m.Stream != stream {
		t.Fatalf("%+v, %v, want kind %d of stream %d and no error", m, err, kind, stream)
	}
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestStreams checks that each stream is opened with its header, and that both ends can send on it until they close
// it.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		go func() {
			for range 2 {
				if _, err := client.Open(map[string]string{"streamtype": "data", "port": "80"}); err != nil {
					t.Error(err)
				}
			}
			must(t, client.Write(3, bytes.Repeat([]byte("x"), 3*maxPiece)))
			must(t, client.CloseWrite(3))
			must(t, client.Reset(1))
		}()
		for _, stream := range []uint32{1, 3} {
			m := next(t, server, Opened, stream)
			if !maps.EqualFunc(m.Header, map[string][]string{"Streamtype": {"data"}, "Port": {"80"}}, func(a, b []string) bool { return a[0] == b[0] }) {
				t.Errorf("stream %d has the header %v", stream, m.Header)
			}
		}
		var got int
		for got < 3*maxPiece {
			got += len(next(t, server, Data, 3).Data)
		}
		next(t, server, Closed, 3)
		next(t, server, Reset, 1)
		if got != 3*maxPiece {
			t.Errorf("%d bytes come, want %d", got, 3*maxPiece)
		}

		go func() {
			must(t, server.Accept(3))
			must(t, server.Write(3, []byte("hello")))
			must(t, server.CloseWrite(3))
			must(t, server.Close())
		}()
		next(t, client, Accepted, 3)
		if m := next(t, client, Data, 3); string(m.Data) != "hello" {
			t.Errorf("%q comes, want %q", m.Data, "hello")
		}
		next(t, client, Closed, 3)
		if m, err := client.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%+v, %v, want %v", m, err, io.EOF)
		}
	})
}

// TestPings: a reader answers each ping once.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t)
		go func() { _, _ = client.Read() }()
		go func() { _, _ = server.Read() }()
		done := make(chan error)
		for _, c := range []*Conn{client, server} {
			go func() {
				var err error
				for range 100 {
					err = errors.Join(err, c.Ping())
					time.Sleep(time.Millisecond)
				}
				done <- err
			}()
		}
		must(t, errors.Join(<-done, <-done))
		synctest.Wait()
		client.Close()
	})
}

// TestDictionary: the dictionary is that of SPDY 3, by its checksum.
func TestDictionary(t *testing.T) {
	if got := adler32.Checksum([]byte(dictionary)); got != 0xe3c6a7c2 {
		t.Errorf("%#x, want %#x", got, 0xe3c6a7c2)
	}
}

// refused returns the error of reading invalid data from a client.
func refused(t *testing.T, text string) error {
	t.Helper()
	c := Server(struct {
		io.Reader
		io.WriteCloser
	}{strings.NewReader(text), nowhere{}})
	for {
		if _, err := c.Read(); err != nil {
			return err
		}
	}
}

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

func TestWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":            {"", "EOF"},
		"cut":                {"\x80\x03\x00", "unexpected EOF"},
		"cut data":           {"\x00\x00\x00\x01\x00\x00\x00\x05abc", "unexpected EOF"},
		"cut control":        {"\x80\x03\x00\x06\x00\x00\x00\x04\x00", "unexpected EOF"},
		"version":            {"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01", "a frame is of version 2"},
		"long control":       {"\x80\x03\x00\x01\x00\xff\xff\xff", "has 16777215 bytes, more than 65536"},
		"short control":      {"\x80\x03\x00\x06\x00\x00\x00\x03\x00\x00\x00", "has 3 bytes"},
		"short stream":       {"\x80\x03\x00\x01\x00\x00\x00\x05\x00\x00\x00\x01\x00", "stream 1 cannot be opened like this"},
		"no compression":     {"\x80\x03\x00\x01\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00ab", "the header of stream 1: zlib: invalid header"},
		"cut header":         {header("\x00\x00\x00\x01\x00\x00\x00\x05por"), "the header of stream 1: unexpected EOF"},
		"many headers":       {header("\xff\xff\xff\xff"), "4294967295 headers are more than 64"},
		"long name":          {header("\x00\x00\x00\x01\x7f\xff\xff\xff"), "a field is too long"},
		"closed by the peer": {"\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00", "EOF"},
		"settings and over":  {"\x80\x03\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00", "EOF"},
	} {
		if err := refused(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error and %q in it", name, err, tt.want)
		}
	}
}

// header returns the opening of a stream with an invalid header.
func header(text string) string {
	b := append(make([]byte, 6), zlibBegin...)
	b = append(b, 0, byte(len(text)), 0, ^byte(len(text)), 0xff)
	b = append(append(b, text...), flushed...)
	return string(appendControl(nil, synStream, 1, b))
}

// Only a client opens streams.
func TestOpenOfAServer(t *testing.T) {
	_, server := pair(t)
	if _, err := server.Open(nil); err == nil {
		t.Error("a server opens a stream")
	}
	client := Client(struct {
		io.Reader
		io.WriteCloser
	}{bytes.NewReader(appendControl(nil, synStream, 2, make([]byte, 6))), nowhere{}})
	if m, err := client.Read(); err == nil {
		t.Errorf("a client is sent %+v", m)
	}
}

// FuzzRead: reading any data ends, and takes little memory.
func FuzzRead(f *testing.F) {
	f.Add([]byte(header("\x00\x00\x00\x00")))
	f.Add([]byte("\x00\x00\x00\x01\x01\x00\x00\x03abc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := refused(t, string(text)); err == nil {
			t.Error("it does not end")
		}
	})
}

// TestAnnouncedData: a frame of data takes memory for the bytes that arrive, and not for the announced length.
func TestAnnouncedData(t *testing.T) {
	c := Client(struct {
		io.Reader
		io.WriteCloser
	}{strings.NewReader("\x00\x00\x00\x01\x00\xff\xff\xffa"), nowhere{}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := c.Read()
	runtime.ReadMemStats(&after)
	if err != nil || string(m.Data) != "a" {
		t.Fatalf("%+v, %v, want a piece of data", m, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > maxPiece {
		t.Errorf("%d bytes are allocated for a frame that announces 16 MiB, want at most %d", got, maxPiece)
	}
}
