// Puts or gets objects of one size with minio-go, the client library that warp calls for every object.
//
// It prints the seconds and the CPU seconds of its loop. Credentials are in AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY. It ends with the first error.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

type work struct {
	client         *minio.Client
	get            bool
	bucket, prefix string
	body           []byte
	put            minio.PutObjectOptions
}

func main() {
	log.SetFlags(0)
	endpoint := flag.String("endpoint", "", "URL of the server; SSL_CERT_FILE names the certificates to trust")
	get := flag.Bool("get", false, "get objects instead of putting them")
	bucket := flag.String("bucket", "", "an existing bucket")
	prefix := flag.String("prefix", "", "what all keys begin with; a number of 12 digits follows")
	objects := flag.Int64("objects", 1, "objects in all")
	size := flag.Int("bytes", 0, "bytes of each object")
	connections := flag.Int("connections", 1, "requests at the same time")
	unsigned := flag.Bool("unsigned-payload", false, "do not sign the content; over TLS it never is")
	checksum := flag.Bool("crc32c", false, "send a CRC32C with each object")
	lock := flag.Duration("lock", 0, "lock each object for this time, in governance mode")
	flag.Parse()

	server, err := url.Parse(*endpoint)
	if err != nil {
		log.Fatal(err)
	}
	client, err := minio.New(server.Host, &minio.Options{
		Creds:           credentials.NewEnvAWS(),
		Secure:          server.Scheme == "https",
		Region:          "us-east-1",
		BucketLookup:    minio.BucketLookupPath,
		TrailingHeaders: *checksum,
		MaxRetries:      1,
	})
	if err != nil {
		log.Fatal(err)
	}
	body := make([]byte, *size)
	if _, err := rand.Read(body); err != nil {
		log.Fatal(err)
	}
	put := minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: *unsigned}
	if *checksum {
		put.Checksum = minio.ChecksumCRC32C
	}
	if *lock > 0 {
		put.Mode = minio.Governance
		put.RetainUntilDate = time.Now().Add(*lock)
	}
	cpu := cpuSeconds()
	seconds := run(work{client, *get, *bucket, *prefix, body, put}, *objects, *connections)
	fmt.Println(seconds, cpuSeconds()-cpu)
}

// cpuSeconds returns the user and system time of this process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// run returns the seconds from the first request to the last answer.
func run(each work, objects int64, connections int) float64 {
	var next atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for range connections {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for number := next.Add(1) - 1; number < objects; number = next.Add(1) - 1 {
				if err := each.one(fmt.Sprintf("%s%012d", each.prefix, number)); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	clients.Wait()
	return time.Since(began).Seconds()
}

func (each work) one(key string) error {
	background := context.Background()
	if !each.get {
		_, err := each.client.PutObject(
			background, each.bucket, key, bytes.NewReader(each.body), int64(len(each.body)), each.put)
		return err
	}
	object, err := each.client.GetObject(background, each.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	received, err := io.Copy(io.Discard, object)
	if err == nil && received != int64(len(each.body)) {
		err = fmt.Errorf("%s has %d bytes", key, received)
	}
	return err
}
