package shallow_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/shallow"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestACopyHasItsOwnFieldsAndSharesTheParts(t *testing.T) {
	s := &serverv1.Server{
		Id: "s1", Labels: map[string]string{"rack": "a"}, Sysinfo: &serverv1.Sysinfo{Processors: 4},
		Found: []*serverv1.FoundAgent{{Agent: "web"}},
	}
	before := proto.CloneOf(s)
	c := shallow.Copy(s)
	if !proto.Equal(c, s) || c.Sysinfo != s.Sysinfo || c.Found[0] != s.Found[0] {
		t.Fatalf("%v, want %v with its parts", c, s)
	}
	s.Id, s.Sysinfo, s.Labels = "s2", &serverv1.Sysinfo{Processors: 8}, nil
	s.Found = append(s.Found, &serverv1.FoundAgent{Agent: "db"})
	if !proto.Equal(c, before) {
		t.Errorf("%v after a change of the original, want %v", c, before)
	}
	c.Reason = "late"
	if s.Reason != "" {
		t.Error("a field of the copy is one of the original")
	}
}

func TestAMessageThatBecomesACopyKeepsNothingOfItsOwn(t *testing.T) {
	s := &serverv1.Server{Id: "s1", Labels: map[string]string{"rack": "a"}}
	c := &serverv1.Server{Id: "s2", Reason: "late", Found: []*serverv1.FoundAgent{{Agent: "web"}}}
	shallow.Into(c, s)
	if !proto.Equal(c, s) {
		t.Errorf("%v, want %v", c, s)
	}
}
