package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
)

// ErrCancelled is the error of [Systemd.DelayShutdown] if a shutdown was cancelled after Stop had been called. The pods
// have stopped, so the agent should restart.
var ErrCancelled = errors.New("systemd: the shutdown was cancelled after the pods had been stopped")

// A Delay configures how a shutdown is delayed.
type Delay struct {
	// Period is the maximum time for Stop. If logind allows less, DelayShutdown raises logind's limit. Required.
	Period time.Duration
	// Stop is called when the machine is about to shut down. The shutdown waits until Stop returns, or Period has passed.
	// Required.
	Stop func(ctx context.Context)
	// Who is the name under which logind lists the delay. Default "podsync".
	Who string
	// Conf is the file that raises the limit of logind, which reads all files *.conf in that directory. Default
	// /etc/systemd/logind.conf.d/99-podsync.conf.
	Conf string
}

const (
	logind, logindPath, logindManager = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
	prepareForShutdown                = "PrepareForShutdown"
	// firstRetry and lastRetry are the shortest and the longest pause before a lost lock is taken again.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// settle is the maximum time that logind takes to read its configuration. settlePause is the pause between two checks.
	settle, settlePause = 5 * time.Second, 100 * time.Millisecond
)

// DelayShutdown holds a delay lock of logind until ctx ends, calls Stop when the machine is about to shut down, and
// releases the lock when Stop has returned. It returns nil when ctx has ended, an error if it cannot take the first lock,
// and ErrCancelled if the shutdown is cancelled. It takes the lock again if a restart of the bus or of logind has
// released it.
func (s *Systemd) DelayShutdown(ctx context.Context, d Delay) error {
	switch {
	case d.Period <= 0:
		return fmt.Errorf("systemd: Delay.Period is %v, want more than 0", d.Period)
	case d.Stop == nil:
		return errors.New("systemd: Delay.Stop is missing")
	}
	d.Who = cmp.Or(d.Who, "podsync")
	d.Conf = cmp.Or(d.Conf, "/etc/systemd/logind.conf.d/99-podsync.conf")
	held := false
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		lock, err := s.takeLock(ctx, d)
		if err == nil {
			held, pause = true, firstRetry
			err = lock.await(ctx, d)
			lock.close()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrCancelled) || !held:
			return err
		}
		s.config.Log.Error(err, "The lock that delays a shutdown is lost, and taken again", "after", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// A lock delays a shutdown until it is closed.
type lock struct {
	conn    *dbus.Conn
	signals chan *dbus.Signal
	file    *os.File
	log     func(text string)
}

// takeLock raises the limit of logind if it is too low, and takes a lock.
func (s *Systemd) takeLock(ctx context.Context, d Delay) (*lock, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	conn, err := s.dial(ctx, logind)
	if err != nil {
		return nil, err
	}
	l := &lock{conn: conn, signals: make(chan *dbus.Signal, 16), log: func(text string) { s.config.Log.Info(text) }}
	conn.Signal(l.signals)
	if err = l.inhibit(ctx, d); err != nil {
		l.close()
		return nil, fmt.Errorf("systemd: delay of a shutdown: %w", err)
	}
	return l, nil
}

func (l *lock) inhibit(ctx context.Context, d Delay) error {
	if err := l.raiseLimit(ctx, d); err != nil {
		return err
	}
	err := l.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(logind), dbus.WithMatchInterface(logindManager), dbus.WithMatchMember(prepareForShutdown))
	if err != nil {
		return err
	}
	var fd dbus.UnixFD
	call := l.logind().CallWithContext(ctx, logindManager+".Inhibit", 0, "shutdown", d.Who, "Pods need time to stop", "delay")
	if err := call.Store(&fd); err != nil {
		return err
	}
	l.file = os.NewFile(uintptr(fd), "inhibit")
	return nil
}

func (l *lock) logind() dbus.BusObject { return l.conn.Object(logind, logindPath) }

// raiseLimit makes logind allow a delay of d.Period.
func (l *lock) raiseLimit(ctx context.Context, d Delay) error {
	most, err := l.limit(ctx)
	if err != nil || most >= d.Period {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.Conf), 0o755); err != nil {
		return err
	}
	// The limit is in whole seconds, rounded up.
	text := fmt.Sprintf("# Written so that pods have time to stop when the machine shuts down.\n[Login]\nInhibitDelayMaxSec=%d\n", (d.Period+time.Second-1)/time.Second)
	if err := os.WriteFile(d.Conf, []byte(text), 0o644); err != nil {
		return err
	}
	const hangup = int32(1) // SIGHUP makes logind read its configuration again
	systemd := l.conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	if err := systemd.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.KillUnit", 0, "systemd-logind.service", "all", hangup).Err; err != nil {
		return err
	}
	for end := time.Now().Add(settle); time.Now().Before(end); {
		if most, err = l.limit(ctx); err != nil || most >= d.Period {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}
	return fmt.Errorf("logind delays a shutdown by %v at most, want %v: a file in %s may have another InhibitDelayMaxSec", most, d.Period, filepath.Dir(d.Conf))
}

// limit returns the longest delay that logind allows.
func (l *lock) limit(ctx context.Context) (time.Duration, error) {
	var value dbus.Variant
	call := l.logind().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindManager, "InhibitDelayMaxUSec")
	if err := call.Store(&value); err != nil {
		return 0, err
	}
	micros, ok := value.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("InhibitDelayMaxUSec is %s, want a number", value)
	}
	return time.Duration(min(micros, uint64(1<<63-1)/1000)) * time.Microsecond, nil
}

// await waits for a shutdown, and then stops the pods.
func (l *lock) await(ctx context.Context, d Delay) error {
	begins, err := l.next(ctx)
	for err == nil && !begins {
		begins, err = l.next(ctx)
	}
	if err != nil {
		return err
	}
	l.log("The machine shuts down: the pods stop")
	stopping, cancel := context.WithTimeout(ctx, d.Period)
	d.Stop(stopping)
	cancel()
	l.release()
	l.log("The shutdown of the machine is no longer delayed")
	for begins {
		if begins, err = l.next(ctx); err != nil {
			return err
		}
	}
	return ErrCancelled
}

// next waits for the next signal, and reports whether a shutdown begins; false means that it is cancelled.
func (l *lock) next(ctx context.Context) (begins bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case signal, ok := <-l.signals:
			if !ok {
				return false, errors.New("the connection to D-Bus is closed")
			}
			if signal.Name == logindManager+"."+prepareForShutdown && dbus.Store(signal.Body, &begins) == nil {
				return begins, nil
			}
		}
	}
}

// release releases the lock, so that the shutdown continues.
func (l *lock) release() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

func (l *lock) close() {
	l.release()
	l.conn.Close()
}
