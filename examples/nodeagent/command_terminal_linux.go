package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"github.com/podsync/podsync/runtime/websocket"
)

// terminal puts the console into raw mode, and sends the terminal's size to the process whenever it changes. The
// returned function restores the console.
func (l *invocation) terminal(ctx context.Context, ws *websocket.Conn) (undo func()) {
	restore := raw(l.in)
	ctx, cancel := context.WithCancel(ctx)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	resized <- syscall.SIGWINCH // the first size
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-resized:
				l.sendSize(ws)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(resized)
		cancel()
		<-done
		restore()
	}
}

func (l *invocation) sendSize(ws *websocket.Conn) {
	width, height, ok := terminalSize(l.in)
	if !ok {
		return
	}
	size, err := json.Marshal(map[string]int{"Width": width, "Height": height})
	if err == nil {
		_ = ws.Write([]byte{4}, size) // the stream may have ended
	}
}

// raw puts a terminal into raw mode. It does nothing for other files.
func raw(f *os.File) (restore func()) {
	var was syscall.Termios
	if !termios(f, syscall.TCGETS, &was) {
		return func() {}
	}
	now := was
	now.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR | syscall.ICRNL | syscall.IXON
	now.Oflag &^= syscall.OPOST
	now.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	now.Cflag = now.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	now.Cc[syscall.VMIN], now.Cc[syscall.VTIME] = 1, 0
	termios(f, syscall.TCSETS, &now)
	return func() { termios(f, syscall.TCSETS, &was) }
}

func termios(f *os.File, request uintptr, t *syscall.Termios) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(t)))
	return errno == 0
}
