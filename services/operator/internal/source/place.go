package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
)

// The bounds of a connection to a source.
const (
	dialWithin   = 10 * time.Second
	answerWithin = 30 * time.Second
	idleWithin   = 30 * time.Second // without a byte of an answer
	maxRedirects = 5
)

// place is where the files of a source are.
type place interface {
	// open returns the content of a file from an offset on, or from its start, and says which.
	open(ctx context.Context, name string, offset int64) (content io.ReadCloser, from int64, err error)
}

// placeOf returns the place at a location.
func placeOf(location string) (place, error) {
	if strings.HasPrefix(location, artifactScheme) {
		return openArtifact(location)
	}
	if filepath.IsAbs(location) {
		if filepath.Ext(location) == bundleExtension {
			return openBundle(location)
		}
		return directory(location), nil
	}
	base, err := url.Parse(location)
	if err != nil {
		return nil, unusable("%.200q is not a URL: %v", location, err)
	}
	return newWeb(base, idleWithin), nil
}

// unusable returns the refusal of a source.
func unusable(format string, args ...any) *fault.Error {
	return fault.Refusef(fault.Unavailable, code.BadSource, format, args...)
}

// directory is a place on this machine.
type directory string

func (d directory) open(_ context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	f, err := regular.Open(filepath.Join(string(d), filepath.FromSlash(name)))
	if err != nil {
		return nil, 0, unusable("%v", err)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, 0, unusable("%s: %v", name, err)
	}
	return f, offset, nil
}

// web is a place behind a web server.
type web struct {
	base   *url.URL
	client *http.Client
	idle   time.Duration
}

func newWeb(base *url.URL, idle time.Duration) web {
	return web{base: base, idle: idle, client: newHTTPClient(answerWithin)}
}

// newHTTPClient returns a client that waits so long for an answer to a request; 0 means as long as its context.
func newHTTPClient(answer time.Duration) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext,
		TLSHandshakeTimeout: dialWithin, ResponseHeaderTimeout: answer,
		DisableCompression: true, // a range is of the bytes of the file
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect refuses a redirect too many, and one from https to what anybody on the way can change.
func checkRedirect(next *http.Request, before []*http.Request) error {
	switch {
	case len(before) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return errors.New("a redirect from https to " + next.URL.Scheme)
	}
	return nil
}

func (w web) open(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	at := w.base.JoinPath(strings.Split(name, "/")...).String()
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		cancel(nil)
		return nil, 0, unusable("%v", err)
	}
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	answer, err := w.client.Do(request)
	if err != nil {
		cancel(nil)
		return nil, 0, unusable("%v", err)
	}
	body := newPatient(answer.Body, cancel, w.idle)
	switch answer.StatusCode {
	case http.StatusOK:
		return body, 0, nil
	case http.StatusPartialContent:
		if strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)) {
			return body, offset, nil
		}
	}
	_ = body.Close()
	return nil, 0, unusable("GET %s: status %s", at, answer.Status)
}

// patient is the body of an answer that ends when no byte comes for a while.
type patient struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func newPatient(body io.ReadCloser, cancel context.CancelCauseFunc, idle time.Duration) *patient {
	p := &patient{body: body, cancel: cancel, idle: idle}
	p.timer = time.AfterFunc(idle, p.giveUp)
	return p
}

func (p *patient) giveUp() { p.cancel(os.ErrDeadlineExceeded) }

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	p.timer.Reset(p.idle)
	return n, err
}

// Close implements io.Closer.
func (p *patient) Close() error {
	p.timer.Stop()
	p.cancel(nil)
	return p.body.Close()
}
