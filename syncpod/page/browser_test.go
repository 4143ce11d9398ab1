//go:build unix

package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/syncpod/page"
)

// A browser is a tab of a Chromium, over the DevTools protocol on a pipe.
type browser struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	session string
	last    int
	// wrong has what the console, the policy and dialogs reported.
	wrong []string
}

// startBrowser starts the program that PODSYNC_BROWSER names.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("PODSYNC_BROWSER")
	if program == "" {
		t.Skip("PODSYNC_BROWSER names no browser, such as chromium; the step of .ci/run installs one")
	}
	in, out := pipe(t), pipe(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	command := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // it leaves folders there
	command.ExtraFiles = []*os.File{in[0], out[1]}            // descriptors 3 and 4
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	in[0].Close()
	out[1].Close()
	t.Cleanup(func() {
		in[1].Close() // the browser ends with its pipe
		time.AfterFunc(5*time.Second, cancel)
		_ = command.Wait()
		cancel()
		// Its other processes may still write to its folder, which is removed next.
		for end := time.Now().Add(10 * time.Second); syscall.Kill(-command.Process.Pid, syscall.SIGKILL) == nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	b := &browser{t: t, to: in[1], from: bufio.NewReaderSize(out[0], 1<<20)}
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func pipe(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return [2]*os.File{r, w}
}

// call calls a method of the protocol, and notes events until its answer comes.
func (b *browser) call(method string, params map[string]any, answer any) {
	b.t.Helper()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	for err == nil {
		var m struct {
			ID             int
			Method         string
			Params, Result json.RawMessage
			Error          *struct{ Message string }
		}
		if text, err = b.from.ReadBytes(0); err == nil {
			err = json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m)
		}
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening", "Runtime.consoleAPICalled":
			b.wrong = append(b.wrong, m.Method+" "+string(m.Params))
		}
		if err != nil || m.ID != b.last {
			continue
		}
		if m.Error != nil {
			err = fmt.Errorf("%s: %s", method, m.Error.Message)
		} else if answer != nil {
			err = json.Unmarshal(m.Result, answer)
		}
		break
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// eval returns an expression's value as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(answer.Result.Value)
}

// wait waits until an expression has a value.
func (b *browser) wait(expression, want string) {
	b.t.Helper()
	got := ""
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = b.eval(expression); got == want {
			return
		}
	}
	b.t.Fatalf("%s is %q, want %q; the browser reported %v", expression, got, want, b.wrong)
}

// press presses keys, such as ArrowDown or a character.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		params := map[string]any{"type": "keyDown", "key": key}
		switch {
		case key == "Enter":
			params["text"], params["windowsVirtualKeyCode"] = "\r", 13
		case key == "Tab":
			params["windowsVirtualKeyCode"] = 9
		case len(key) == 1:
			params["text"] = key
		}
		b.call("Input.dispatchKeyEvent", params, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
	}
}

// look sets the size of the window and the color scheme.
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// picture stores a picture of the window in the folder PODSYNC_PICTURES, if it is set.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PODSYNC_PICTURES")
	if folder == "" {
		return
	}
	var answer struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	png, err := base64.StdEncoding.DecodeString(answer.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// open serves the page of an agent, and opens it.
func (b *browser) open(view *page.Page, a page.Agent) {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	served := make(chan error, 1)
	go func() { served <- page.Serve(ctx, listener, view.Handler(a)) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			b.t.Error(err)
		}
	})
	b.wrong = nil
	b.call("Page.navigate", map[string]any{"url": "http://" + listener.Addr().String()}, nil)
	b.wait("location.host + document.getElementById('live')?.className", listener.Addr().String()+"on")
}

const (
	countRows = "String(document.querySelectorAll('#pods tr').length)"
	focused   = "document.activeElement.textContent"
	overflow  = "String(document.documentElement.scrollWidth > innerWidth)"
)

func TestPageInABrowser(t *testing.T) {
	b := startBrowser(t)
	b.look(1280, 720, "light")

	view, a := observed(0)
	b.open(view, a)
	b.wait("document.getElementById('empty').textContent", "There are no pods yet.")

	view, a = observed(3)
	b.open(view, a)
	b.wait(countRows, "3")
	b.press("ArrowDown", "ArrowDown")
	b.wait(focused, "crashing-edge")
	b.press("Enter")
	b.wait("String(document.getElementById('explanation').textContent.includes('CrashLoopBackOff'))", "true")
	b.wait("String(document.querySelectorAll('#pod-events li').length)", "2")
	b.picture("page")
	b.look(1280, 720, "dark")
	b.wait("getComputedStyle(document.body).backgroundColor", "rgb(17, 20, 24)")
	b.picture("dark")
	b.look(400, 720, "light")
	b.wait(overflow, "false")
	b.picture("narrow-pod")
	b.press("Escape")
	b.wait("String(document.getElementById('detail').hidden)", "true")
	b.wait(focused, "crashing-edge")
	b.wait(overflow, "false")
	b.picture("narrow")
	b.look(1280, 720, "light")
	b.press("/", "w", "e", "b")
	b.wait(countRows, "1")
	b.press("Escape")
	b.wait(countRows, "3")
	b.eval("location.hash = '#events'")
	b.wait("String(document.querySelectorAll('#events li').length)", "5")
	b.picture("events")
	b.eval("location.hash = '#timeline'")
	b.wait("document.getElementById('frame').contentDocument.title", "Pods of edge")
	b.picture("timeline")

	view, a = observed(500)
	b.open(view, a)
	b.wait(countRows, "500")
	b.press("ArrowDown", "End")
	b.wait(focused, "pod-499-edge")
	b.picture("many")
	if len(b.wrong) > 0 {
		t.Errorf("the browser reports %v", b.wrong)
	}
}

// A hundred names, images, messages and file names that would run a script if one of them were not escaped.
func TestHostileNamesInABrowser(t *testing.T) {
	b := startBrowser(t)
	b.look(1280, 720, "light")
	view, a := hostile(t, 100)
	b.open(view, a)
	b.wait(countRows, "100")
	elements := func(where string) string {
		return b.eval(where + ".querySelectorAll('img,svg,iframe,object,embed,base,form,style,script,link,meta').length")
	}
	empty := elements("document")
	for _, view := range []string{"#events", "#pods", "#timeline", "#pod=uid-7"} {
		b.eval("location.hash = '" + view + "'")
		b.wait("location.hash", view)
		if view == "#events" {
			b.wait("String(document.querySelectorAll('#events li').length)", "100")
		}
	}
	b.wait("document.querySelector('#pod-name').textContent", strings.TrimPrefix(a.name(7), "default/"))
	b.wait("String(document.querySelectorAll('#problem-list li').length)", "100")
	b.wait("String(document.getElementById('frame').contentDocument.querySelectorAll('canvas').length)", "1")
	if got := elements("document"); got != empty {
		t.Errorf("%s elements that names could make, want %s", got, empty)
	}
	if got := elements("document.getElementById('frame').contentDocument"); got != "5" { // of the timeline itself
		t.Errorf("%s elements in the timeline that names could make", got)
	}
	if got := b.eval("[window, document.getElementById('frame').contentWindow].map((w) => String(w.pwned)).join()"); got != "undefined,undefined" {
		t.Errorf("a name has run a script: %s", got)
	}
	b.picture("hostile")
	if len(b.wrong) > 0 {
		t.Errorf("the browser reports %v", b.wrong)
	}
}
