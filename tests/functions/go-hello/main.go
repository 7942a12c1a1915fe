// The function contract with Go's standard library alone: HTTP over the Unix socket that FN_LISTENER
// names. The header Case says what to do with a body; without it, it comes back.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const idle = time.Second // of a connection between two calls

var instance = func() string { // one container is told from another by it
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		log.Fatal(err)
	}
	return hex.EncodeToString(random[:])
}()

func handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // an answer before the end of a request is refused
	if err != nil {
		return
	}
	switch r.Header.Get("Case") {
	case "hello":
		var in struct{ Name string }
		if err := json.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{"message": "Hello " + in.Name, "instance": instance})
	case "error":
		http.Error(w, "went wrong", http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Write(body)
	}
}

// Under its name only when it listens, and for everybody: the runner has another user.
func listen(path string) (net.Listener, error) {
	hidden := "." + filepath.Base(path)
	l, err := net.Listen("unix", filepath.Join(filepath.Dir(path), hidden))
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(filepath.Dir(path), hidden), 0o666); err != nil {
		return nil, err
	}
	return l, os.Symlink(hidden, path)
}

func main() {
	address := os.Getenv("FN_LISTENER")
	if format := os.Getenv("FN_FORMAT"); !strings.HasPrefix(address, "unix:") || format != "http-stream" {
		log.Fatalf("FN_LISTENER %q and FN_FORMAT %q are not those of http-stream", address, format)
	}
	l, err := listen(strings.TrimPrefix(address, "unix:"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal((&http.Server{Handler: http.HandlerFunc(handle), IdleTimeout: idle}).Serve(l))
}
