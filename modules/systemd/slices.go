package systemd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	units "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
)

var _ tree.Slices = (*Systemd)(nil)

// Names of D-Bus errors of systemd.
const (
	unitExists = "org.freedesktop.systemd1.UnitExists"
	noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"
)

// replace is the job mode: systemd cancels conflicting jobs that wait.
const replace = "replace"

// SetSlice starts the slice of a cgroup, or sets the properties of a slice that exists already; see [tree.Slices]. If r
// is zero, an existing slice keeps its properties: it is above pod slices, and may be the administrator's.
func (s *Systemd) SetSlice(ctx context.Context, at string, r cgroup.Resources) error {
	name, above, err := unitOf(at)
	if err != nil {
		return err
	}
	properties, err := propertiesOf(s.config.Version, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	conn, err := s.manager(ctx)
	if err != nil {
		return err
	}
	err = job(ctx, func(done chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, name, replace, append(starting(s.config.Version, above), properties...), done)
		return err
	})
	switch {
	case err == nil:
		s.config.Log.Info("slice started", "slice", name)
		return nil
	case !isError(err, unitExists):
		return fmt.Errorf("systemd: start of %s: %w", name, err)
	case reflect.DeepEqual(r, cgroup.Resources{}):
		return nil
	}
	return setProperties(ctx, conn, name, properties)
}

// setProperties sets properties of a unit until the machine restarts.
func setProperties(ctx context.Context, conn *units.Conn, name string, properties []units.Property) error {
	if err := conn.SetUnitPropertiesContext(ctx, name, true, properties...); err != nil {
		return fmt.Errorf("systemd: properties of %s: %w", name, err)
	}
	return nil
}

// LimitSlice sets the properties of an existing slice for which r has a value; see [tree.Slices].
func (s *Systemd) LimitSlice(ctx context.Context, at string, r cgroup.Resources) error {
	name, _, err := unitOf(at)
	if err != nil {
		return err
	}
	properties, err := propertiesOf(s.config.Version, r)
	if err != nil {
		return err
	}
	properties = slices.DeleteFunc(properties, func(p units.Property) bool { return p.Value.Value() == uint64(unlimited) })
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	conn, err := s.manager(ctx)
	if err != nil {
		return err
	}
	return setProperties(ctx, conn, name, properties)
}

// RemoveSlice stops a cgroup's slice; see [tree.Slices].
func (s *Systemd) RemoveSlice(ctx context.Context, at string) error {
	name, _, err := unitOf(at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	conn, err := s.manager(ctx)
	if err != nil {
		return err
	}
	err = job(ctx, func(done chan<- string) error {
		_, err := conn.StopUnitContext(ctx, name, replace, done)
		return err
	})
	if err != nil && !isError(err, noSuchUnit) {
		return fmt.Errorf("systemd: stop of %s: %w", name, err)
	}
	// A failed slice stays loaded, and keeps its name, until it is reset.
	if err := conn.ResetFailedUnitContext(ctx, name); err != nil && !isError(err, noSuchUnit) {
		return fmt.Errorf("systemd: reset of %s: %w", name, err)
	}
	s.config.Log.Info("slice stopped", "slice", name)
	return nil
}

// job starts a job and waits for its end.
func job(ctx context.Context, begin func(done chan<- string) error) error {
	done := make(chan string, 1)
	if err := begin(done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job ended with %q, want %q", result, "done")
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the job has not ended: %w", context.Cause(ctx))
	}
}

// isError reports whether err is the D-Bus error with this name.
func isError(err error, name string) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == name
}
