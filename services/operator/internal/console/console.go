// Package console builds the command garrison console, which signs a browser in to the console of a gateway.
package console

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// answerWithin bounds the request for a code, and mostAnswer its answer.
const answerWithin, mostAnswer = 15 * time.Second, 64 << 10

// Command returns the command console.
func Command(env *cli.Env) *cobra.Command {
	var at string
	var stay bool
	c := &cobra.Command{
		Use: "console [--http URL]", Args: cli.Exactly(), PreRunE: cli.NoTable(env),
		SuggestFor: []string{"ui", "web", "dashboard"},
		Short:      "Open the console in a browser, signed in as the user of the context.",
		Long: `Ask the gateway for a one-time code, and open the console in a browser, where you type it. The code is
valid for two minutes and signs one browser in, for eight hours at most, as the user of the context. Without a browser
here, as over ssh, open the address elsewhere.`,
		Example: "  garrison console\n  garrison console --http https://garrison.example.com:8443 --no-browser",
		RunE:    func(c *cobra.Command, _ []string) error { return open(c.Context(), env, at, stay) },
	}
	cli.TextVar(c.Flags(), &at, "http", isHTTP, "the gateway's `URL`; without it, that of the context")
	c.Flags().BoolVar(&stay, "no-browser", false, "print the address and the code only")
	return c
}

func open(ctx context.Context, env *cli.Env, at string, stay bool) error {
	who, err := client.FindContext(env.ContextName, env.Getenv)
	if err != nil {
		return cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	at = strings.TrimSuffix(cmp.Or(at, env.Getenv("GARRISON_HTTP"), who.HTTP), "/")
	if at == "" {
		return cli.Usage("the gateway's address is not known. Try: garrison console --help")
	}
	if err := isHTTP(at); err != nil {
		return cli.Usage("the gateway's address: %v", err)
	}
	if u, _ := url.Parse(at); u.Scheme == "http" && !who.AllowPlain && !bus.IsLoopback(u.Hostname()) {
		return fault.Refusef(fault.Invalid, code.PlainRefused,
			"%s is without TLS, and others on the way would read the credentials", at).
			Try("garrison console --help")
	}
	made, err := askCode(ctx, who, at)
	if err != nil {
		return err
	}
	made.URL = at + made.Path
	if !stay && env.Output.IsTable() {
		browse(made.URL) // without the code: others on this host see the arguments of programs
	}
	text := fmt.Sprintf("console  %s\ncode     %s, valid for one browser until %s\n", made.URL, made.Code,
		listing.Stamp(timestamppb.New(made.Expires)))
	return output.ShowDocument(env.Output, made, text)
}

// isHTTP refuses what is not the address of an HTTP server.
func isHTTP(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not http://HOST:PORT or https://HOST:PORT", text)
	}
	return nil
}

// answer is what the gateway answers.
type answer struct {
	URL     string    `json:"url"` // added here
	Code    string    `json:"code"`
	Path    string    `json:"path,omitempty"`
	Expires time.Time `json:"expires"`
}

// problem is how the gateway refuses.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Try    string `json:"try"`
}

// askCode asks a gateway for a code. The credentials go to that address only: redirects are not followed.
func askCode(ctx context.Context, who trust.Context, at string) (made answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/console/codes", nil)
	if err != nil {
		return made, err
	}
	q.Header.Set("Authorization", "Bearer "+who.Bearer())
	caller := http.Client{
		Transport:     &http.Transport{TLSClientConfig: trusting(who.CA), Proxy: proxy},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := caller.Do(q)
	if err != nil {
		return made, fault.New(fault.Unavailable, "the gateway does not answer: %w", err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, mostAnswer))
	if err != nil {
		return made, fault.New(fault.Unavailable, "the gateway's answer is cut: %w", err)
	}
	if r.StatusCode != http.StatusOK {
		var p problem
		if json.Unmarshal(body, &p) != nil || p.Code == "" {
			return made, fault.New(fault.Invalid, "%s is no gateway of a Garrison: it answered %s", at, r.Status)
		}
		return made, fault.Refusef(kindOf(r.StatusCode), p.Code, "%s", p.Detail).Try(p.Try)
	}
	return made, json.Unmarshal(body, &made)
}

// proxy returns the proxy of the environment for HTTPS, which it cannot read, and none for HTTP.
func proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

func kindOf(status int) fault.Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.Denied
	case status >= http.StatusInternalServerError:
		return fault.Unavailable
	}
	return fault.Invalid
}

// trusting returns what an HTTPS address must show: a certificate of the bus's CA or of one of the operating system's.
func trusting(ca string) *tls.Config {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM([]byte(ca))
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// browse opens an address in the browser of the desktop, where there is one.
func browse(address string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if c := exec.Command(program, address); c.Start() == nil {
		go func() { _ = c.Wait() }() // the address is printed, too
	}
}
