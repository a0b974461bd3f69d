package strict_test

import (
	"bytes"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/strict"
)

const payload = 1 << 20 // what the bus lets through

// nested returns a list in a list, so deep.
func nested(depth int) []byte {
	var out []byte
	for range depth / 2 { // a value holds a list, which holds a value
		list := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), out)
		out = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), list)
	}
	return out
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Memory that a sender does not send is not given to it.
func TestAMessageThatCostsMoreMemoryThanItsSizeIsRefused(t *testing.T) {
	entries := bytes.Repeat([]byte{6<<3 | 2, 0}, payload/2) // empty entries of a document
	names := bytes.Repeat([]byte{2<<3 | 2, 0}, payload/2)   // empty names of servers
	deep := nested(10_000)
	jsonEntries, jsonNames := jsonOf(`{"entries":[`, `{},`, `{}]}`), jsonOf(`{"servers":[`, `"",`, `""]}`)
	jsonDeep := []byte(strings.Repeat("[", 10_000))
	for name, decode := range map[string]func() error{
		"empty messages":      func() error { return strict.Unmarshal(entries, &desiredv1.Document{}) },
		"empty names":         func() error { return strict.Unmarshal(names, &intentv1.Selector{}) },
		"many levels":         func() error { return strict.Unmarshal(deep, &structpb.Value{}) },
		"empty JSON messages": func() error { return strict.UnmarshalJSON(jsonEntries, &desiredv1.Document{}) },
		"empty JSON names":    func() error { return strict.UnmarshalJSON(jsonNames, &intentv1.Selector{}) },
		"many JSON levels":    func() error { return strict.UnmarshalJSON(jsonDeep, &structpb.Value{}) },
	} {
		before := allocated()
		err := decode()
		used := allocated() - before
		if err == nil || used > 4<<20 {
			t.Errorf("%s: %v with %d KiB of memory; want an error", name, err, used>>10)
		}
		t.Logf("%s: %v, %d KiB", name, err, used>>10)
	}
	before := allocated()
	err := proto.Unmarshal(entries, &desiredv1.Document{})
	t.Logf("without the bound: %v, %d MiB", err, (allocated()-before)>>20)
}

// jsonOf fills a payload with repetitions of a text.
func jsonOf(begin, again, end string) []byte {
	return []byte(begin + strings.Repeat(again, (payload-len(begin)-len(end))/len(again)) + end)
}

func TestALargeMessageOfOrdinaryContentPasses(t *testing.T) {
	document := &desiredv1.Document{Labels: map[string]string{}}
	for n := range 64 {
		document.Labels[fmt.Sprint("l", n)] = "v"
	}
	for n := range 9_600 {
		document.Entries = append(document.Entries, &desiredv1.Entry{
			Agent: fmt.Sprint("a", n), InstanceId: "i", Generation: 1, Deadline: timestamppb.Now(),
			Image: &imagev1.Manifest{Run: &imagev1.Run{Args: []string{"-a", "-b"}, Ready: &imagev1.Ready{
				Probe: &imagev1.Ready_Exec{Exec: &imagev1.Exec{Command: "x"}},
			}}, Blob: &imagev1.Blob{Digest: make([]byte, 32)}},
			Metadata: map[string]string{"a": "b", "c": "d"},
		})
	}
	data, err := proto.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := strict.Unmarshal(data, &desiredv1.Document{}); err != nil || len(data) < 900<<10 {
		t.Errorf("%d entries in %d bytes: %v", len(document.Entries), len(data), err)
	}
	text, err := protojson.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	back := &desiredv1.Document{}
	if err := strict.UnmarshalJSON(text, back); err != nil || !proto.Equal(back, document) {
		t.Errorf("%d bytes of JSON: %v", len(text), err)
	}
	if err := strict.UnmarshalJSON([]byte(`{"agent":"{[\"[[[,,,\\"}`), &desiredv1.Entry{}); err != nil {
		t.Errorf("brackets in a text: %v", err)
	}
}

// FuzzWhatIsDecodedIsWhatTheDecoderSays compares with the decoder without bounds.
func FuzzWhatIsDecodedIsWhatTheDecoderSays(f *testing.F) {
	f.Add([]byte{6<<3 | 2, 0})
	f.Add(nested(80))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var bounded, free desiredv1.Document
		err, freeErr := strict.Unmarshal(raw, &bounded), proto.Unmarshal(raw, &free)
		if err == nil && (freeErr != nil || !proto.Equal(&bounded, &free)) {
			t.Fatalf("%x is decoded as %v, want %v, %v", raw, &bounded, &free, freeErr)
		}
		if err != nil && freeErr == nil && len(raw) < 64 {
			t.Fatalf("%x is refused: %v", raw, err)
		}
		_ = strict.UnmarshalJSON(raw, &bounded) // must only return
	})
}
