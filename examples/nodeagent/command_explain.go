package main

import (
	"context"
	"io"
)

// printExplanation is nodeagent explain.
func printExplanation(ctx context.Context, l *invocation) error {
	namespace, name := l.pod()
	resp, err := l.get(ctx, "/explain/"+namespace+"/"+name)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(l.out, resp.Body)
	return err
}
