package timeline

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// pageData is the data that the page's script draws. Times are in milliseconds since the Unix epoch.
type pageData struct {
	Node  string    `json:"node,omitempty"`
	Now   int64     `json:"now"`
	Since int64     `json:"since"`
	Pods  []pagePod `json:"pods"`
}

type pagePod struct {
	Name     string      `json:"n"`
	UID      string      `json:"u"`
	Phase    string      `json:"p"`
	Over     bool        `json:"o,omitempty"`
	Restarts int         `json:"r"`
	Dropped  int         `json:"d,omitempty"`
	Entries  []pageEntry `json:"e"`
}

type pageEntry struct {
	Container string `json:"c,omitempty"`
	Kind      kind   `json:"k"`
	Name      string `json:"n"`
	Why       string `json:"w,omitempty"`
	Begin     int64  `json:"b"`
	End       *int64 `json:"t,omitempty"`
	Failed    bool   `json:"f,omitempty"`
	Count     int    `json:"x,omitempty"`
	Lane      int    `json:"l"`
}

// writeHTML writes pods as a page that needs no other file: it contains the script that draws them. It can be stored
// as a file.
func (t *Timeline) writeHTML(w io.Writer, pods []podHistory) error {
	now := time.Now()
	data := pageData{Node: t.config.NodeName, Now: now.UnixMilli(), Since: t.began.UnixMilli(), Pods: []pagePod{}}
	for i := range pods {
		data.Pods = append(data.Pods, pageOf(&pods[i], now))
	}
	text, err := json.Marshal(data) // the JSON contains no <, > and &
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("@DATA@", string(text), "@SCRIPT@", pageScript).WriteString(w, pageHTML)
	return err
}

func pageOf(p *podHistory, now time.Time) pagePod {
	page := pagePod{Name: p.Namespace + "/" + p.Name, UID: string(p.UID), Phase: p.Phase, Over: p.Finished, Restarts: p.Restarts, Dropped: p.Dropped}
	if p.Name == "" {
		page.Name = page.UID
	}
	lane := lanes(p.Entries, now)
	for i := range p.Entries {
		e := &p.Entries[i]
		out := pageEntry{
			Container: e.Container, Kind: e.Kind, Name: e.Name, Why: e.Reason, Begin: e.Begin.UnixMilli(), Failed: e.Failed, Lane: lane[i],
		}
		if e.Count > 1 {
			out.Count = e.Count
		}
		if !e.End.IsZero() {
			out.End = new(e.End.UnixMilli())
		}
		page.Entries = append(page.Entries, out)
	}
	return page
}

// policy allows the page to run its own script, and to load nothing. Only a page of the same server may frame it.
func policy() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
