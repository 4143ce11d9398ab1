package main

import (
	"context"
	"fmt"
	"net/url"
)

// printTimeline is nodeagent timeline.
func printTimeline(ctx context.Context, l *invocation) error {
	if l.output != "html" && l.output != "trace" {
		return wrongUsage{fmt.Errorf("-o %s: want html or trace", l.output)}
	}
	query := url.Values{"format": {l.output}}
	if len(l.names) > 0 {
		namespace, name := l.pod()
		query.Set("pod", namespace+"/"+name)
	}
	resp, err := l.get(ctx, "/timeline?"+query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return printEscaped(l.out, resp.Body)
}
