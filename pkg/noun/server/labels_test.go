package server_test

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestALabelOfAnOperatorWinsOverOneByARule(t *testing.T) {
	own := func(pairs map[string]string) proto.Message { return &serverv1.Changed{Labels: pairs} }
	rule := func(pairs map[string]string) proto.Message {
		b := &serverv1.Labelled{Labels: map[string]*serverv1.RuleLabel{}}
		for k, v := range pairs {
			b.Labels[k] = &serverv1.RuleLabel{Value: v, Rule: "r"}
		}
		return b
	}
	type labels = map[string]string
	one, two, b := labels{"a": "1"}, labels{"a": "2"}, labels{"b": "1"}
	for name, c := range map[string]struct {
		facts     []proto.Message
		want, own labels
	}{
		"a rule adds":                     {[]proto.Message{own(b), rule(two)}, labels{"a": "2", "b": "1"}, b},
		"an operator wins before":         {[]proto.Message{own(one), rule(two)}, one, one},
		"an operator wins after":          {[]proto.Message{rule(two), own(one)}, one, one},
		"a change of others keeps it":     {[]proto.Message{rule(two), own(b)}, labels{"a": "2", "b": "1"}, b},
		"it goes with its rule":           {[]proto.Message{own(b), rule(two), rule(nil)}, b, b},
		"what an operator removes is all": {[]proto.Message{rule(two), own(one), own(nil)}, labels{}, labels{}},
	} {
		t.Run(name, func(t *testing.T) {
			fact := ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Invited{}, At: time.Unix(0, 0)}
			s, _ := server.Apply(nil, fact)
			fact.Body = &serverv1.Enrolled{}
			s, _ = server.Apply(s, fact)
			for _, b := range c.facts {
				fit := false
				if s, fit = server.Apply(s, ledger.Fact{Noun: ledger.Server, Key: "s", Body: b}); !fit {
					t.Fatalf("%T does not fit", b)
				}
			}
			if !maps.Equal(s.Labels, c.want) || !maps.Equal(server.OwnLabels(s), c.own) {
				t.Errorf("labels %v, own %v; want %v, own %v", s.Labels, server.OwnLabels(s), c.want, c.own)
			}
		})
	}
}
