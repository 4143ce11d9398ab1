package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/store"
)

// exitChanges is the exit code of a plan that changes something.
const exitChanges = 2

// errChanges means that a plan changes something.
var errChanges = errors.New("the plan has changes")

// maxPlanned is the maximum size of all manifests of a plan.
const maxPlanned = 32 << 20

// planned are a plan's manifests, by their files' names.
type planned struct {
	// Whole means that the folder has no other files.
	Whole bool              `json:"whole"`
	Files map[string][]byte `json:"files"`
}

// A planner serves a running agent's plans.
type planner struct {
	agent     *agent.Agent
	manifests *source.Folder
}

func (p planner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q planned
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*maxPlanned)).Decode(&q); err != nil {
		http.Error(w, "the manifests cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p.agent.Preview(p.manifests.Name(), p.manifests.Preview(q.Files, q.Whole)))
}

// printPlan is nodeagent plan.
func printPlan(ctx context.Context, l *invocation) error {
	switch {
	case l.output != "" && l.output != "json":
		return wrongUsage{fmt.Errorf("-o %s: want json", l.output)}
	case len(l.names) == 0:
		return wrongUsage{errors.New("the manifests are missing: name a folder, a file, or - for standard input")}
	}
	p, err := l.plan(ctx)
	if err != nil {
		if errors.As(err, new(*failure)) || errors.As(err, new(wrongUsage)) {
			return err
		}
		return &failure{exitOther, "", err}
	}
	if l.output == "json" {
		err = printJSON(l.out, p, "  ")
	} else {
		printPreview(l.out, p)
	}
	switch {
	case err != nil:
		return err
	case p.Changes():
		return errChanges
	case len(p.Errors) > 0:
		return &failure{exitOther, "", errors.New(plural(len(p.Errors), "error") + " in the manifests")}
	}
	return nil
}

// plan asks the running agent, or uses the recorded state with -root.
func (l *invocation) plan(ctx context.Context) (p loop.Preview, err error) {
	q, err := l.planned()
	if err != nil {
		return p, err
	}
	if l.root != "" {
		return l.planStored(ctx, q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return p, err
	}
	resp, err := l.send(ctx, http.MethodPost, "/plan", bytes.NewReader(body))
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	return p, json.NewDecoder(resp.Body).Decode(&p)
}

// planStored plans an agent's next start.
func (l *invocation) planStored(ctx context.Context, q planned) (p loop.Preview, err error) {
	if !q.Whole {
		return p, wrongUsage{errors.New("-root needs a folder of manifests: the other files of the agent are not recorded")}
	}
	if _, err := os.Stat(l.root); err != nil {
		return p, fmt.Errorf("-root: %w", err)
	}
	node := l.node
	if node == "" {
		if node, err = hostname(); err != nil {
			return p, err
		}
	}
	folder, err := source.NewFolder(source.FolderConfig{Path: orElse(l.manifests, l.names[0]), NodeName: node})
	if err != nil {
		return p, err
	}
	files, err := store.NewFiles(filepath.Join(l.root, "statuses"))
	if err != nil {
		return p, err
	}
	statuses, err := files.Load(ctx)
	return loop.PreviewStored(statuses, runtime.ConfigSourceFile, folder.Preview(q.Files, true)), err
}

// planned reads the manifests.
func (l *invocation) planned() (planned, error) {
	q := planned{Files: map[string][]byte{}}
	path, left := l.names[0], maxPlanned
	add := func(name string, from io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(from, int64(left)+1))
		if left -= len(text); err == nil && left < 0 {
			err = fmt.Errorf("%s: the manifests have more than %d bytes", path, maxPlanned)
		}
		q.Files[name] = text
		return err
	}
	if path == "-" {
		return q, add("standard-input.yaml", l.in)
	}
	addFile := func(path string) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return add(filepath.Base(path), file)
	}
	info, err := os.Stat(path)
	if err != nil {
		return q, err
	}
	if !info.IsDir() {
		return q, addFile(path)
	}
	q.Whole = true
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		if info, statErr := os.Stat(file); err == nil && statErr == nil && info.Mode().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			err = addFile(file)
		}
	}
	return q, err
}

// printPreview prints a line for each pod and container.
func printPreview(to io.Writer, p loop.Preview) {
	for _, text := range p.Errors {
		fmt.Fprintln(to, "Error:", foreign.Line(text))
	}
	for _, text := range p.Warnings {
		fmt.Fprintln(to, "Warning:", foreign.Line(text))
	}
	t := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	for _, pod := range p.Pods {
		name := pod.Name
		if pod.Namespace != "default" {
			name = pod.Namespace + "/" + name
		}
		fmt.Fprintf(t, "%s\t%v\t%s\n", foreign.Line(name), pod.Effect, foreign.Line(pod.Reason))
		for _, c := range pod.Containers {
			fmt.Fprintf(t, "  %s\t%v\t%s\n", foreign.Line(c.Name), c.Effect, foreign.Line(c.Reason))
		}
	}
	t.Flush()
	if p.Objects {
		fmt.Fprintln(to, "ConfigMaps or Secrets change: the volumes of running pods are updated.")
	}
	if !p.Changes() {
		fmt.Fprintln(to, "Nothing would change.")
	}
}
