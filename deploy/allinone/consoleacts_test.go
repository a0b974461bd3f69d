package allinone_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A viewer is offered no act, and the bus refuses it. An operator is asked first, and it is done once confirmed.
func TestAnActIsAskedForShownAndDone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("web-1", nil)
	vic, ann := s.signIn(s.user("vic", topology.Viewer)), s.signIn(s.user("ann", topology.Operator))
	form := url.Values{"server": {"web-1"}, "labels": {"rack=a1"}, "why": {`it's "here" <b>`}}
	page := "/console/act/label?" + form.Encode()
	for who, want := range map[*tab]bool{vic: false, ann: true} {
		if _, body := who.get("/console/servers/web-1"); strings.Contains(body, "/console/act/") != want {
			t.Errorf("the page of a server offers an act: %v, want %v", !want, want)
		}
		_, body := who.get(page)
		if strings.Contains(body, "Do it") != want || !strings.Contains(body, "garrison server set web-1 rack=a1") ||
			strings.Contains(body, "<b>") && !strings.Contains(body, "&lt;b&gt;") {
			t.Errorf("the page of an act offers it: want %v\n%s", want, body)
		}
	}
	hostile := url.Values{
		"image": {"x; rm -rf ~"}, "channel": {"`id`"}, "labels": {"a=b $(id)"}, "server": {"web-1"},
	}
	for page, want := range map[string]string{
		"act/promote": `promote &#39;x; rm -rf ~&#39; --channel &#39;` + "`id`&#39;",
		"act/label":   `set web-1 a=b &#39;$(id)&#39;`,
	} {
		if _, body := ann.get("/console/" + page + "?" + hostile.Encode()); !strings.Contains(body, want) {
			t.Errorf("the command of %s is not quoted:\n%s", page, body)
		}
	}
	answer, _ := ann.send(http.MethodPost, "/console/act/label", form, nil)
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || to != page {
		t.Errorf("before it is confirmed: %s at %s", answer.Status, to)
	}
	form.Set("confirmed", "1")
	if answer, body := vic.send(http.MethodPost, "/console/act/label", form, nil); answer.StatusCode !=
		http.StatusForbidden {
		t.Errorf("a viewer sets a label: %s\n%s", answer.Status, body)
	}
	s.labels("web-1", "")
	if answer, body := ann.send(http.MethodPost, "/console/act/label", form, nil); answer.StatusCode !=
		http.StatusOK || !strings.Contains(body, "its labels are rack=a1") {
		t.Errorf("an operator sets a label: %s\n%s", answer.Status, body)
	}
	s.labels("web-1", "a1")
}

// labels fails the test unless a server has a label rack.
func (s *site) labels(server, rack string) {
	s.Helper()
	r, err := client.Call[*registryv1.GetServerResponse](s.Context(), s.client(s.user("root", topology.Admin)),
		&registryv1.GetServerRequest{Server: server})
	if err != nil || r.GetServer().GetLabels()["rack"] != rack {
		s.Errorf("the label is %q, want %q: %v", r.GetServer().GetLabels()["rack"], rack, err)
	}
}

// What is wrong with a form is said, and nothing is done.
func TestAnActThatIsNotWholeIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("web-1", nil)
	b := s.signIn(s.user("ann", topology.Operator))
	for path, want := range map[string]int{
		"label?server=web-1&confirmed=1":                               http.StatusBadRequest,
		"label?server=web-1&labels=rack&confirmed=1":                   http.StatusBadRequest,
		"hold?server=all&agent=beacon&until=8h&confirmed=1":            http.StatusBadRequest,
		"hold?server=web-1&agent=beacon&until=9y&confirmed=1":          http.StatusBadRequest,
		"move?server=web-1&environment=none&confirmed=1":               http.StatusBadRequest, // without its plan
		"approve?rollout=1&wave=x&confirmed=1":                         http.StatusBadRequest,
		"erase?server=web-1&confirmed=1":                               http.StatusNotFound,
		"unhold?hold=0195d5a0-0000-7000-8000-000000000000&confirmed=1": http.StatusNotFound,
		"reject?fingerprint=AAAA&confirmed=1":                          http.StatusForbidden, // of admins only
	} {
		word, form, _ := strings.Cut(path, "?")
		values, _ := url.ParseQuery(form)
		if answer, body := b.send(http.MethodPost, "/console/act/"+word, values, nil); answer.StatusCode != want {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
	}
	if _, body := b.get("/console/lobby"); !strings.Contains(body, "The lobby is closed") {
		t.Errorf("the page of the lobby:\n%s", body)
	}
}

// A page says that it has not everything, and leads to the rest.
func TestAListSaysWhereItsRestIs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for n := range 101 {
		s.invite("web-"+string(rune('a'+n/26))+string(rune('a'+n%26)), nil)
	}
	b := s.signIn(s.user("ann", topology.Operator))
	if _, body := b.get("/console/servers"); !strings.Contains(body, `rel="next"`) || strings.Contains(body, "web-dw") {
		t.Error("the first page of servers has no next one")
	}
	if _, body := b.get("/console/map?on=all"); !strings.Contains(body, "101 servers, by environment and name") {
		t.Errorf("the map of servers:\n%s", body)
	}
}

// The page that ends a hold says what ends: whose, where and why.
func TestAnActThatEndsAHoldShowsIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("web-1", nil)
	ctx := client.WithNote(t.Context(), "T-9 <b>")
	r, err := client.Call[*registryv1.PutRecordResponse](ctx, s.client(s.user("root", topology.Admin)),
		record.Set(&holdv1.Hold{On: &intentv1.Selector{All: true}, Until: timestamppb.New(time.Now().Add(time.Hour))}))
	if err != nil {
		t.Fatal(err)
	}
	id := record.As[*holdv1.Hold](r.GetRecord()).GetId()
	ann := s.signIn(s.user("ann", topology.Operator))
	_, body := ann.get("/console/act/unhold?hold=" + id + "&server=web-1")
	for _, want := range []string{"What ends", "every agent", "<td>all</td>", "root", "T-9 &lt;b&gt;", "Do it"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q:\n%s", want, body)
		}
	}
	if answer, _ := ann.get("/console/act/unhold?hold=0195d5a0"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a hold that is not there: %s", answer.Status)
	}
}
