package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"
)

// printLogs is nodeagent logs.
func printLogs(ctx context.Context, l *invocation) error {
	path, err := l.path(ctx, "containerLogs")
	if err != nil {
		return err
	}
	l.warnIfSilent(ctx)
	resp, err := l.get(ctx, path+"?"+l.logQuery().Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(l.out, resp.Body)
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

func (l *invocation) logQuery() url.Values {
	q := url.Values{}
	for name, is := range map[string]bool{"follow": l.follow, "previous": l.previous, "timestamps": l.timestamps} {
		if is {
			q.Set(name, "true")
		}
	}
	if l.tail >= 0 {
		q.Set("tailLines", fmt.Sprint(l.tail))
	}
	if l.since > 0 {
		q.Set("sinceSeconds", fmt.Sprint(int64(math.Ceil(float64(l.since)/float64(time.Second)))))
	}
	return q
}
