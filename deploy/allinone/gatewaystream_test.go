package allinone_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// events is a stream of server-sent events.
type events struct {
	*bufio.Scanner
	body io.Closer
}

// follow opens a stream of events.
func (s *site) follow(token, query, last string) events {
	s.Helper()
	q, err := http.NewRequestWithContext(s.Context(), "GET", s.url()+"/events?"+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		q.Header.Set("Last-Event-ID", last)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil || r.StatusCode != http.StatusOK {
		s.Fatalf("GET /events: %v (%v)", r, err)
	}
	s.Cleanup(func() { _ = r.Body.Close() })
	return events{bufio.NewScanner(r.Body), r.Body}
}

// next returns the id, the name and the data of the next event that has a name; "" at the end of the stream.
func (e events) next() (id, name, data string) {
	for e.Scan() {
		field, value, _ := strings.Cut(e.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "event":
			name = value
		case field == "data":
			data = value
		case field == "" && name != "":
			return id, name, data
		}
	}
	return "", "", ""
}

// channelIn returns the channel that a fact in JSON is about.
func channelIn(data string) string {
	var fact struct{ Headers map[string]string }
	if err := json.Unmarshal([]byte(data), &fact); err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(fact.Headers["ce-subject"], "channel/")
}

func TestAStreamOfEventsContinuesBehindTheLastOneAfterARestart(t *testing.T) {
	t.Parallel()
	dir, here := t.TempDir(), allinone.HTTP{Listen: "127.0.0.1:0"}
	s := siteIn(t, dir, here)
	ann := s.user("ann", topology.Operator).Bearer()
	stream := s.follow(ann, "noun=channel", "")
	_, name, _ := stream.next()
	if name != "fact" {
		t.Fatalf("the first event is %q, want a fact", name)
	}
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann, `{"name":"a"}`), http.StatusOK, "a")
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann, `{"name":"b"}`), http.StatusOK, "b")
	id, _, data := stream.next()
	if channelIn(data) != "a" {
		t.Fatalf("the next fact is %q, want that of channel a", data)
	}
	_ = stream.body.Close()
	s.stop()
	s.Close()
	s = siteIn(t, dir, here)
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann, `{"name":"c"}`), http.StatusOK, "c")
	again := s.follow(ann, "noun=channel", id)
	for _, channel := range []string{"b", "c"} {
		if _, _, data := again.next(); channelIn(data) != channel {
			t.Errorf("continued with %s, want the fact of channel %s", data, channel)
		}
	}
}

func TestAStreamEndsWithTheRightsOfItsUser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	admin, eve := s.user("ann", topology.Admin).Bearer(), s.user("eve", topology.Viewer)
	created := s.ask("POST", "/garrison.access.v1.AccessService/CreateUser", admin,
		fmt.Sprintf(`{"name":"eve","role":"ROLE_VIEWER","publicKey":%q}`, eve.PublicKey()))
	s.want(created, http.StatusOK, "jwt")
	stream := s.follow(eve.Bearer(), "new=1", "")
	s.want(s.ask("POST", "/garrison.access.v1.AccessService/RevokeUser", admin, `{"name":"eve"}`), http.StatusOK, "")
	name, data := "fact", ""
	for name == "fact" || name == "beat" {
		_, name, data = stream.next()
	}
	if name != "error" || !strings.Contains(data, code.LoginRefused) {
		t.Errorf("the stream ended with %q: %s, want the error %s", name, data, code.LoginRefused)
	}
	s.want(s.ask("POST", registryPath+"ListServers", eve.Bearer(), "{}"), http.StatusUnauthorized, code.LoginRefused)
}

func TestAStopEndsStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stream := s.follow(s.user("ann", topology.Viewer).Bearer(), "new=1", "")
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.stop() }()
	name, data := "fact", ""
	for name == "fact" || name == "beat" {
		_, name, data = stream.next()
	}
	<-stopped
	if name != "error" || !strings.Contains(data, "stops") {
		t.Errorf("the stream ended with %q: %s, want an error that says why", name, data)
	}
}
