package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

// printPods is nodeagent get.
func printPods(ctx context.Context, l *invocation) error {
	if l.output != "" && l.output != "json" && l.output != "yaml" {
		return wrongUsage{fmt.Errorf("-o %s: want json or yaml", l.output)}
	}
	pods, err := l.pods(ctx)
	if err != nil {
		return err
	}
	if len(l.names) > 0 {
		namespace, name := l.pod()
		pods = slices.DeleteFunc(pods, func(p v1.Pod) bool { return p.Namespace != namespace || p.Name != name })
		if len(pods) == 0 {
			return fmt.Errorf("pod %q does not exist", namespace+"/"+name)
		}
	}
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
	switch l.output {
	case "json":
		return printJSON(l.out, list, "  ")
	case "yaml":
		return printYAML(l.out, list)
	}
	l.warnIfSilent(ctx)
	for _, line := range tableOf(rowsOf(pods), time.Now()) {
		fmt.Fprintln(l.out, line)
	}
	return nil
}

// didYouMean adds the most similar pod name to the error if the agent has no pod of the given name.
func (l *invocation) didYouMean(ctx context.Context, err error) error {
	if err == nil || len(l.names) == 0 || errors.As(err, new(*failure)) {
		return err
	}
	pods, getErr := l.pods(ctx)
	if getErr != nil {
		return err // without a proposal
	}
	namespace, name := l.pod()
	inNamespace, elsewhere := map[string]string{}, map[string]string{}
	for _, p := range pods {
		switch {
		case p.Namespace == namespace && p.Name == name:
			return err
		case p.Namespace == namespace:
			inNamespace[p.Name] = l.names[0][:len(l.names[0])-len(name)] + p.Name
		default:
			elsewhere[p.Name] = p.Namespace + "/" + p.Name
		}
	}
	for _, known := range []map[string]string{inNamespace, elsewhere} {
		if near := nearest(name, slices.Collect(maps.Keys(known))); near != "" {
			return &failure{exitOther, "Did you mean " + foreign.Line(known[near]) + "?", err}
		}
	}
	return err
}
