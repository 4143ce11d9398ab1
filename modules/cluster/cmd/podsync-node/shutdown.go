package main

import (
	"context"
	"fmt"
	"time"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/syncpod/shutdown"
)

const (
	// shutdownMargin is the time of a shutdown for what follows the end of the pods, such as the last statuses.
	shutdownMargin = 5 * time.Second
	shuttingDown   = "node is shutting down"
)

// delayShutdown delays a shutdown of the machine until the pods have stopped, if the configuration gives them time. It returns
// when ctx ends, or with an error if logind does not allow the delay, or if a shutdown was cancelled: the
// agent is then started anew, because it has stopped its pods.
func (a *agent) delayShutdown(ctx context.Context, p *parts) error {
	policy, err := config.Shutdown(a.kubelet)
	if err != nil || policy.Total() == 0 {
		return err
	}
	err = a.systemd.DelayShutdown(ctx, systemd.Delay{
		Period: policy.Total() + shutdownMargin, Who: "podsync-node", Conf: a.logindConf,
		Stop: func(ctx context.Context) { a.stopPods(ctx, p, policy) },
	})
	if err != nil {
		return fmt.Errorf("shutdownGracePeriod: %w", err)
	}
	return nil
}

// stopPods reports that the node shuts down, and stops the pods.
func (a *agent) stopPods(ctx context.Context, p *parts, policy shutdown.Policy) {
	a.shuttingDown.Store(true)
	p.node.Report()
	if err := p.loop.Shutdown(ctx, policy); err != nil {
		a.log.Error(err, "Pods still stop, and the machine shuts down")
	}
}

// notReady returns why the node is not ready, beside its runtime; "" if it is.
func (a *agent) notReady() string {
	if a.shuttingDown.Load() {
		return shuttingDown
	}
	return ""
}
