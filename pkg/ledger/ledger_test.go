package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestEveryKindOfFactDecodesToWhatWasEncoded(t *testing.T) {
	for _, k := range ledger.Kinds {
		want := ledger.Fact{
			Noun: k.Noun, Key: "a.b", Body: k.Body.ProtoReflect().New().Interface(),
			ID: "0190", At: time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.UTC),
			Source: k.Noun.Writer(), Actor: "alice",
			Request: "r", Cause: ledger.CausedByFact(7), Trace: "00-a-b-01", Note: "OPS-8: größer", Sequence: 42,
		}
		header, data, err := ledger.Encode(want, 1)
		if err != nil {
			t.Errorf("encode %s.%s: %v", k.Noun, k.Name, err)
			continue
		}
		if subject := want.Subject(); subject != "garrison.ledger."+string(k.Noun)+".a.b."+k.Name {
			t.Errorf("subject %s", subject)
		}
		have, err := ledger.Decode(want.Subject(), header, data, 42)
		if err != nil {
			t.Errorf("decode %s.%s: %v", k.Noun, k.Name, err)
			continue
		}
		if diff := cmp.Diff(want, have, protocmp.Transform()); diff != "" {
			t.Errorf("%s.%s (-want +have):\n%s", k.Noun, k.Name, diff)
		}
	}
}

// The client cuts all headers of a message out of one text, and a record that keeps a part of it keeps all of it.
func TestADecodedFactKeepsNoPartOfItsMessage(t *testing.T) {
	block := "garrison.ledger.task.t1.queued 2026-01-01T00:00:00Z id garrison/task-dispatcher alice request cause trace"
	parts := strings.Fields(block)
	header := map[string][]string{}
	for n, name := range []string{
		"ce-time", "ce-id", "ce-source", "Garrison-Actor", "Garrison-Request", "Garrison-Cause", "traceparent",
	} {
		header[name] = parts[n+1 : n+2]
	}
	f, err := ledger.Decode(parts[0], header, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(block)))
	for name, text := range map[string]string{
		"key": f.Key, "id": f.ID, "source": f.Source, "actor": f.Actor, "request": f.Request, "cause": f.Cause,
		"trace": f.Trace,
	} {
		at := uintptr(unsafe.Pointer(unsafe.StringData(text)))
		if text == "" || at >= begin && at < begin+uintptr(len(block)) {
			t.Errorf("the %s, %q, is a part of the message", name, text)
		}
	}
	if f.Key != "t1" || f.ID != "id" || f.Request != "request" || f.Cause != "cause" || f.Source != ledger.Dispatcher {
		t.Errorf("decoded %+v", f)
	}
}

func TestAFactCarriesTheAttributesOfCloudEvents(t *testing.T) {
	header, _, err := ledger.Encode(ledger.Fact{
		Noun: ledger.Task, Key: "t1", Body: &taskv1.Queued{}, ID: "i", At: time.Unix(0, 0),
		Source: ledger.Dispatcher, Actor: "alice",
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-specversion": {
			"1.0",
		}, "ce-id": {"i"}, "ce-type": {"garrison.task.v1.Queued"}, "ce-source": {"garrison/task-dispatcher"},
		"ce-subject": {"task/t1"}, "ce-time": {"1970-01-01T00:00:00Z"}, "Garrison-Actor": {"alice"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

func TestAFactThatIsNotWholeIsNotEncoded(t *testing.T) {
	whole := ledger.Fact{
		Noun:   ledger.Task,
		Key:    "t1",
		Body:   &taskv1.Queued{},
		ID:     "i",
		At:     time.Unix(1, 0),
		Source: "s",
		Actor:  "a",
	}
	for name, edit := range map[string]func(*ledger.Fact){
		"no id":        func(f *ledger.Fact) { f.ID = "" },
		"no key":       func(f *ledger.Fact) { f.Key = "" },
		"no time":      func(f *ledger.Fact) { f.At = time.Time{} },
		"no actor":     func(f *ledger.Fact) { f.Actor = "" },
		"another noun": func(f *ledger.Fact) { f.Noun = ledger.Server },
	} {
		f := whole
		edit(&f)
		if _, _, err := ledger.Encode(f, 1); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestAMessageThatIsNoFactIsInvalid(t *testing.T) {
	header := map[string][]string{"ce-time": {"2026-01-01T00:00:00Z"}}
	for _, c := range []struct {
		subject string
		data    string
	}{
		{"garrison.ledger.task.t1.nonsense", ""},
		{"garrison.ledger.nonsense.t1.queued", ""},
		{"garrison.ledger.task.queued", ""},
		{"other.subject", ""},
		{"garrison.ledger.task.t1.queued", "\xff\xff\xff"},
	} {
		if _, err := ledger.Decode(c.subject, header, []byte(c.data), 1); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want invalid", c.subject, err)
		}
	}
	if _, err := ledger.Decode("garrison.ledger.task.t1.queued", nil, nil, 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a time: %v, want invalid", err)
	}
}

func TestEachKindIsThereOnceAndHasAWriter(t *testing.T) {
	subjects, types := map[string]bool{}, map[string]bool{}
	for _, k := range ledger.Kinds {
		subject, typ := string(k.Noun)+"."+k.Name, string(k.Body.ProtoReflect().Descriptor().FullName())
		if subjects[subject] || types[typ] {
			t.Errorf("%s or %s is there twice", subject, typ)
		}
		subjects[subject], types[typ] = true, true
		if !strings.HasPrefix(typ, "garrison."+string(k.Noun)+".v1.") || k.Noun.Writer() == "" {
			t.Errorf("%s: body %s, writer %q", subject, typ, k.Noun.Writer())
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("garrison.ledger.task.t1.queued", "2026-01-01T00:00:00Z", []byte{})
	f.Fuzz(func(t *testing.T, subject, at string, data []byte) {
		fact, err := ledger.Decode(subject, map[string][]string{"ce-time": {at}}, data, 1)
		if err == nil && fact.Subject() != subject {
			t.Errorf("decoded %q as %q", subject, fact.Subject())
		}
	})
}

func TestTheServerThatCausedAFactIsKnown(t *testing.T) {
	for cause, want := range map[string]string{
		ledger.CausedByReport("s1", 7): "s1", ledger.CausedByBeat("s1"): "s1", ledger.CausedByRequest("s1"): "",
		ledger.CausedByClock: "", "report/": "", "": "",
	} {
		if server, ok := ledger.ServerOfCause(cause); server != want || ok != (want != "") {
			t.Errorf("%q is of %q, %v; want %q", cause, server, ok, want)
		}
	}
}

func TestANoteIsOneShortPrintableLine(t *testing.T) {
	longest := strings.Repeat("x", ledger.MaxNote)
	for note, want := range map[string]string{
		"OPS-8: größer": "OPS-8: größer", longest: longest, longest + "x": "", "a\nb": "", "\xff": "",
	} {
		if got := ledger.CheckNote(note); got != want {
			t.Errorf("%.20q is the note %.20q, want %.20q", note, got, want)
		}
	}
}

func TestOnlyATraceparentIsATrace(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if got := ledger.CheckTrace(good); got != good {
		t.Errorf("%q, want it as it is", got)
	}
	for _, bad := range []string{
		"", "x", strings.ToUpper(good), good + "-x", "01" + good[2:], good + "\n", strings.Repeat("a", 2000),
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		strings.Replace(good, "4b", "\x1b[", 1),
	} {
		if got := ledger.CheckTrace(bad); got != "" {
			t.Errorf("%.80q is taken as %q", bad, got)
		}
	}
}

// A task is assigned only if nothing was recorded about it since sequence 41. Of two
// dispatchers that draft this, one gets a conflict.
func ExampleOnKey() {
	fact := ledger.Fact{
		ID: "01890a5d-ac96-774b-bcce-b302099a8057", Noun: ledger.Task, Key: "t1", Body: &taskv1.Assigned{},
		At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Actor: "task-dispatcher", Source: "task-dispatcher",
	}
	draft := ledger.OnKey(fact, 41)
	fmt.Println(draft.Subject())
	fmt.Println(draft.Guard.Subject, draft.Guard.Sequence)

	header, _, err := ledger.Encode(draft.Fact, 1)
	fmt.Println(header["ce-type"], header["ce-subject"], err)
	// Output:
	// garrison.ledger.task.t1.assigned
	// garrison.ledger.task.t1.* 41
	// [garrison.task.v1.Assigned] [task/t1] <nil>
}
