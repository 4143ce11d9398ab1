package critest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// answer responds on a connection to a server, with the protocol that the client's first bytes select.
func (r *Runtime) answer(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(r.life, func() { conn.Close() })()
	heard := bufferedConn{conn, bufio.NewReader(conn)}
	first, err := heard.Peek(3)
	switch {
	case err != nil: // the client only checked whether the port is open
	case first[0] == tlsHandshake:
		r.answerTLS(heard)
	case string(first) == "PRI": // the preface of HTTP/2
		answerGRPC(heard)
	default:
		answerHTTP(heard)
	}
}

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

// A bufferedConn reads through a buffer, which may already contain its first bytes.
type bufferedConn struct {
	net.Conn
	*bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// answerTLS answers HTTP over TLS, with a self-signed certificate.
func (r *Runtime) answerTLS(conn net.Conn) {
	certificate, err := r.certificate()
	if err != nil {
		return // the client notices that the connection is closed
	}
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
	defer secured.Close()
	answerHTTP(bufferedConn{secured, bufio.NewReader(secured)})
}

func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
}

// answerHTTP responds to each request with 200 and an empty body.
func answerHTTP(conn bufferedConn) {
	for {
		req, err := http.ReadRequest(conn.Reader)
		if err != nil {
			return // the client has disconnected, or uses another protocol
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // likewise
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil || req.Close {
			return // likewise
		}
	}
}

const healthCheck, healthServing = "/grpc.health.v1.Health/Check", "\x08\x01"

// answerGRPC reports SERVING for each service, with grpc.health.v1.
func answerGRPC(conn net.Conn) {
	lis := &oneListener{conn: conn, ended: make(chan struct{})}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); method != healthCheck {
			return status.Errorf(codes.Unimplemented, "unknown method %s", method)
		}
		var asked []byte
		if err := stream.RecvMsg(&asked); err != nil {
			return err
		}
		answer := []byte(healthServing)
		return stream.SendMsg(&answer)
	}))
	_ = server.Serve(lis) // until the connection has ended
	server.Stop()
}

// rawCodec leaves messages unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// A oneListener accepts one connection, and ends with it.
type oneListener struct {
	conn  net.Conn
	given sync.Once
	ended chan struct{}
	end   sync.Once
}

func (l *oneListener) Accept() (conn net.Conn, err error) {
	l.given.Do(func() { conn = endingConn{l.conn, l} })
	if conn != nil {
		return conn, nil
	}
	<-l.ended
	return nil, errors.New("critest: the connection has ended")
}

func (l *oneListener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return pipeAddr{} }

type endingConn struct {
	net.Conn
	listener *oneListener
}

func (c endingConn) Close() error {
	return errors.Join(c.Conn.Close(), c.listener.Close())
}
