// The cases of go-hello by the official FDK for Go. It has no word for an error but to panic, upon
// which its server closes the connection.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"

	fdk "github.com/fnproject/fdk-go"
)

var instance = func() string { // one container is told from another by it
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		log.Fatal(err)
	}
	return hex.EncodeToString(random[:])
}()

func handle(ctx context.Context, in io.Reader, out io.Writer) {
	headers := fdk.GetContext(ctx).Header()
	switch headers.Get("Case") {
	case "hello":
		var said struct{ Name string }
		if err := json.NewDecoder(in).Decode(&said); err != nil {
			panic(err)
		}
		fdk.SetHeader(out, "Content-Type", "application/json")
		json.NewEncoder(out).Encode(map[string]string{"message": "Hello " + said.Name, "instance": instance})
	case "error":
		panic("went wrong")
	default:
		fdk.SetHeader(out, "Content-Type", headers.Get("Content-Type"))
		io.Copy(out, in)
	}
}

func main() {
	fdk.Handle(fdk.HandlerFunc(handle))
}
