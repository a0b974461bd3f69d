package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Clients is how many requests are sent.
type Clients struct {
	Quick int           // clients whose answers are ready at once
	Slow  int           // clients whose answers take a while, so that some are always under way
	Every time.Duration // between two requests of a client, at least
}

// Count is what came of the requests. Every one without a complete answer with status 200 is counted: as refused when
// no process listened, as failed otherwise.
type Count struct {
	Requests, Refused, Failed int
	Answers                   map[string]int // by version
	Longest                   time.Duration  // until an answer was complete
	First                     error          // the first that was refused or failed
}

// Err returns nil when every request was answered.
func (c Count) Err() error {
	switch {
	case c.Requests == 0:
		return errors.New("no request was sent")
	case c.Refused+c.Failed > 0:
		return fmt.Errorf("of %d requests %d were refused and %d failed; the first: %w", c.Requests, c.Refused,
			c.Failed, c.First)
	}
	return nil
}

// Traffic is running clients. Each request has a connection of its own, and none is retried.
type Traffic struct {
	client http.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	count Count
}

// within is how long an answer may take.
const within = 20 * time.Second

// Begin starts clients that send requests to the agent at a URL until Stop.
func Begin(url string, l Clients) *Traffic {
	t := &Traffic{
		client: http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}},
		count:  Count{Answers: map[string]int{}},
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	for n := range l.Quick + l.Slow {
		path := "/"
		if n >= l.Quick {
			path = "/slow"
		}
		t.done.Go(func() { Every(ctx, l.Every, func(int) { t.ask(url + path) }) })
	}
	return t
}

// ask asks once. It waits for the answer also after Stop.
func (t *Traffic) ask(url string) {
	began := time.Now()
	version, err := t.get(url)
	t.took(version, time.Since(began), err)
}

func (t *Traffic) get(url string) (version string, err error) {
	r, err := t.client.Get(url)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return "", err
	}
	if r.StatusCode != http.StatusOK || len(body) == 0 {
		return "", fmt.Errorf("status %s with %d bytes", r.Status, len(body))
	}
	return strings.TrimSpace(string(body)), nil
}

func (t *Traffic) took(version string, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.count
	c.Requests++
	c.Longest = max(c.Longest, took)
	switch {
	case err == nil:
		c.Answers[version]++
		return
	case errors.Is(err, syscall.ECONNREFUSED):
		c.Refused++
	default:
		c.Failed++
	}
	if c.First == nil {
		c.First = err
	}
}

// Requests returns how many requests were sent so far.
func (t *Traffic) Requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count.Requests
}

// Stop waits for the answers that are under way, and returns what came of all.
func (t *Traffic) Stop() Count {
	t.stop()
	t.done.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
