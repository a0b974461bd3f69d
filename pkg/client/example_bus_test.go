package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// example lets an example start a bus as a test does.
type example struct {
	testing.TB
	ends []func()
}

func (e *example) Helper()                   {}
func (e *example) Context() context.Context  { return context.Background() }
func (e *example) Fatal(args ...any)         { log.Fatal(args...) }
func (e *example) Fatalf(f string, a ...any) { log.Fatalf(f, a...) }
func (e *example) Error(args ...any)         { log.Fatal(args...) }
func (e *example) Errorf(f string, a ...any) { log.Fatalf(f, a...) }
func (e *example) Cleanup(f func())          { e.ends = append(e.ends, f) }
func (e *example) TempDir() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (e *example) end() {
	for i := len(e.ends) - 1; i >= 0; i-- {
		e.ends[i]()
	}
}

// Stop following the ledger, and resume behind the last fact that was read.
func ExampleEvent_Position() {
	e := &example{}
	defer e.end()
	b := bustest.Start(e)
	recordFacts(e, b, 5)
	c := connectToLedger(e, b)
	var last client.Position
	for e, err := range c.Follow(context.Background(), client.Query{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Sequence, e.Noun, e.Name())
		if last = e.Position(); e.Sequence == 3 {
			break
		}
	}
	fmt.Println("resume")
	for e, err := range c.Events(context.Background(), client.Query{After: last}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Sequence, e.Noun, e.Name())
	}
	// Output:
	// 1 server online
	// 2 task queued
	// 3 task queued
	// resume
	// 4 task queued
	// 5 task queued
}

// A service that is written for a test answers a typed request.
func ExampleNew() {
	e := &example{}
	defer e.end()
	b := bustest.Start(e)
	answer(e, serve(e, b, ledger.Registry), "GetServer",
		func(q *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			return &registryv1.GetServerResponse{Server: &serverv1.Server{Name: q.GetServer()}}, nil
		})
	c := client.New(b.Dial(e, "ann"), 0)
	s, err := c.Server(context.Background(), "web-1")
	fmt.Println(s.GetName(), err)
	// Output: web-1 <nil>
}
