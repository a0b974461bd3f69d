package source_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	"github.com/garrison-fleet/garrison/pkg/noun/source"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

func TestEveryFactInEveryStateMovesAsLifeDefinesOrChangesNothing(t *testing.T) {
	if err := source.Life.Check(); err != nil {
		t.Fatal(err)
	}
	for _, k := range ledger.Kinds {
		if k.Noun != ledger.Source {
			continue
		}
		for s, before := range map[declared.State]*sourcev1.Source{
			declared.Absent: nil, declared.Present: {Name: "site"},
		} {
			next, want := source.Life.Next(s, k.Name)
			after, fit := source.Apply(before, ledger.Fact{Noun: ledger.Source, Key: "site", Body: k.Body})
			switch {
			case fit != want:
				t.Errorf("%s after %s: fit %v, want %v", s, k.Name, fit, want)
			case !fit && !proto.Equal(before, after):
				t.Errorf("%s after %s: did not fit and changed", s, k.Name)
			case fit && (after == nil) != (next == declared.Absent):
				t.Errorf("%s after %s: record %v", s, k.Name, after)
			}
		}
	}
}

func TestASourceThatMovesKeepsWhatWasSynchronized(t *testing.T) {
	published := timestamppb.New(time.Unix(100, 0))
	s, _ := source.Apply(nil, ledger.Fact{Key: "site", Body: &sourcev1.Added{Location: "https://a/"}})
	s, _ = source.Apply(s, ledger.Fact{Key: "site", Body: &sourcev1.Synced{PublishedAt: published}})
	s, _ = source.Apply(s, ledger.Fact{Key: "site", Body: &sourcev1.Added{Location: "https://b/"}})
	if s.Location != "https://b/" || !proto.Equal(s.Last.GetPublishedAt(), published) {
		t.Errorf("moved: %v", s)
	}
}
