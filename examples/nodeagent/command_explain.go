package main

import "context"

// printExplanation is nodeagent explain.
func printExplanation(ctx context.Context, l *invocation) error {
	namespace, name := l.pod()
	resp, err := l.get(ctx, "/explain/"+namespace+"/"+name)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return printEscaped(l.out, resp.Body)
}
