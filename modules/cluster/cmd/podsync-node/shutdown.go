package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/syncpod/shutdown"
)

const (
	// shutdownMargin is the time that remains for a shutdown's last steps after the pods have stopped, such as the
	// write of their last statuses.
	shutdownMargin = 5 * time.Second
	// notReadyTimeout is the timeout, at a shutdown's start, for reporting to the API server that the node is not ready.
	notReadyTimeout = 2 * time.Second
	shuttingDown    = "node is shutting down"
)

// delayShutdown delays a shutdown of the machine until the pods have stopped, if the configuration sets a grace period. It
// returns when ctx ends. It returns an error if a shutdown was cancelled after the pods had been stopped: the agent then
// restarts. Without logind it logs the error and retries, because pods that run without a delay are better than no pods.
func (a *agent) delayShutdown(ctx context.Context, p *parts) error {
	policy, err := config.Shutdown(a.kubelet)
	if err != nil || policy.Total() == 0 {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.retry(ctx, "shutdownGracePeriod: a shutdown of the machine is not delayed", func(ctx context.Context) error {
		err := a.systemd.DelayShutdown(ctx, systemd.Delay{
			Period: notReadyTimeout + policy.Total() + shutdownMargin, Who: "podsync-node", Conf: a.logindConf,
			Stop: func(ctx context.Context) { a.stopPods(ctx, p, policy) },
		})
		if errors.Is(err, systemd.ErrCancelled) {
			cancel(fmt.Errorf("shutdownGracePeriod: %w", err))
		}
		return err
	})
	if err := context.Cause(ctx); errors.Is(err, systemd.ErrCancelled) {
		return err
	}
	return nil
}

// stopPods first reports that the node shuts down, so that the scheduler binds no replacements to it, and then stops the
// pods. It returns when the API server has their last statuses, because the machine then switches off.
func (a *agent) stopPods(ctx context.Context, p *parts, policy shutdown.Policy) {
	a.shuttingDown.Store(true)
	reporting, cancel := context.WithTimeout(ctx, notReadyTimeout)
	defer cancel()
	if err := p.node.ReportAndWait(reporting); err != nil {
		a.log.Error(err, "The API server has not received that the node is not ready; its pods are stopped now")
	}
	if err := p.loop.Shutdown(ctx, policy); err != nil {
		a.log.Error(err, "The machine shuts down before all pods have stopped")
	}
	if err := p.statuses.Flush(ctx); err != nil {
		a.log.Error(err, "The machine shuts down before the API server has the last statuses")
	}
}

// notReady returns the reason why the node is not ready, apart from the runtime, and "" if it is ready.
func (a *agent) notReady() string {
	if a.shuttingDown.Load() {
		return shuttingDown
	}
	return ""
}
