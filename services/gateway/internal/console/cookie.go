package console

import (
	"net"
	"net/http"
)

// cookieName is the name of the session's cookie. Its prefix has browsers bind it to this host and to encryption; they
// take a loopback address for encrypted. They send it to every port of the host, so the name has the port.
const cookieName = "__Host-garrison"

// nameOf returns the name of the cookie at the address to which a request was sent.
func nameOf(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookieName + "-" + port
	}
	return cookieName
}

// secretOf returns the word by which a browser says that it has a session; empty without one.
func secretOf(r *http.Request) string {
	is, err := r.Cookie(nameOf(r))
	if err != nil {
		return ""
	}
	return is.Value
}

// setWord has a browser keep a word for some seconds; -1 has it forget the one that it has.
func setWord(w http.ResponseWriter, r *http.Request, word string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: nameOf(r), Value: word, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}
