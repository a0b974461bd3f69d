package sessions

import (
	"testing"
	"time"
)

func at(user string, id uint64) Session {
	return Session{Server: "B", ID: id, User: user, Since: time.Unix(int64(id), 0)}
}

func TestTheNewestConnectionsAreTooMany(t *testing.T) {
	b := NewBook(func(string) int { return Most })
	for id := range uint64(Most) {
		if tooMany := b.Open(at("K", id)); len(tooMany) != 0 {
			t.Errorf("connection %d: %v are too many", id, tooMany)
		}
	}
	if tooMany := b.Open(at("K", 9)); len(tooMany) != 1 || tooMany[0].ID != 9 {
		t.Errorf("too many: %v, want the newest", tooMany)
	}
	if tooMany := b.Open(at("L", 10)); len(tooMany) != 0 {
		t.Errorf("of another key, %v are too many", tooMany)
	}
	for range 2 {
		if b.Close(at("K", 9)) {
			t.Error("a connection that is one too many was the last one of its key")
		}
	}
	if open, keys := b.Count(); open != Most+1 || keys != 2 {
		t.Errorf("%d connections of %d keys", open, keys)
	}
	if several := b.Several(); len(several) != 1 || several[0] != "K" {
		t.Errorf("%v have several connections, want K", several)
	}
}

func TestACountReplacesWhatWasAnnounced(t *testing.T) {
	b := NewBook(func(string) int { return Most })
	b.Open(at("gone", 1))
	tooMany, gone := b.Replace([]Session{at("K", 5), at("K", 4), at("K", 3), at("K", 2)})
	if len(tooMany) != 1 || tooMany[0].ID != 5 {
		t.Errorf("too many: %v, want 5", tooMany)
	}
	if len(gone) != 1 || gone[0] != "gone" {
		t.Errorf("without a connection: %v", gone)
	}
	if b.Open(at("L", 9)); !b.Close(at("L", 9)) || b.Close(at("L", 9)) {
		t.Error("the last connection of a key is closed once")
	}
	if of := b.Of("K"); len(of) != 4 || of[0].ID != 2 || len(b.Of("gone")) != 0 {
		t.Errorf("connections: %v", of)
	}
}
