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
	// shutdownMargin is the time of a shutdown for what follows the end of the pods, such as the last statuses.
	shutdownMargin = 5 * time.Second
	// notReadyTimeout bounds the wait at the begin of a shutdown until the API server has that the node is not ready.
	notReadyTimeout = 2 * time.Second
	shuttingDown    = "node is shutting down"
)

// delayShutdown delays a shutdown of the machine until the pods have stopped, if the configuration gives them time. It returns
// when ctx ends, or with an error if a shutdown was cancelled: the agent is then started anew, because it has stopped its
// pods. Without logind the agent logs the error and retries, because pods that run without a delay are better than none.
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

// stopPods reports that the node shuts down, and then stops the pods, so that the scheduler binds no pods to the node that replace
// them. It returns when the API server has their last statuses, because the machine is switched off then.
func (a *agent) stopPods(ctx context.Context, p *parts, policy shutdown.Policy) {
	a.shuttingDown.Store(true)
	reporting, cancel := context.WithTimeout(ctx, notReadyTimeout)
	defer cancel()
	if err := p.node.ReportAndWait(reporting); err != nil {
		a.log.Error(err, "The API server does not have that the node is not ready, and its pods are stopped")
	}
	if err := p.loop.Shutdown(ctx, policy); err != nil {
		a.log.Error(err, "Pods still stop, and the machine shuts down")
	}
	if err := p.statuses.Flush(ctx); err != nil {
		a.log.Error(err, "The API server does not have the last statuses, and the machine shuts down")
	}
}

// notReady returns why the node is not ready, beside its runtime; "" if it is.
func (a *agent) notReady() string {
	if a.shuttingDown.Load() {
		return shuttingDown
	}
	return ""
}
