// Calls a function by name from Go: go run . 127.0.0.1:8500 identity 1 2.5
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	tf "formwork/tf"
	v1 "formwork/v1"
)

func main() {
	log.SetFlags(0)
	conn, err := grpc.Dial(os.Args[1], grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	x := &v1.Tensor{Dtype: tf.DataType_DT_FLOAT, Dims: []int64{int64(len(os.Args) - 3)}}
	for _, text := range os.Args[3:] {
		number, _ := strconv.ParseFloat(text, 32)
		bits := make([]byte, 4)
		binary.LittleEndian.PutUint32(bits, math.Float32bits(float32(number)))
		x.Content = append(x.Content, bits...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := v1.NewGraphServiceClient(conn).Call(ctx, &v1.CallRequest{
		Function: &v1.CallRequest_FunctionName{FunctionName: os.Args[2]},
		Inputs:   []*v1.Value{{Kind: &v1.Value_Tensor{Tensor: x}}},
	})
	if err != nil {
		for _, detail := range status.Convert(err).Details() { // ErrorInfo, BadRequest, ...
			log.Printf("%T: %v", detail, detail)
		}
		log.Fatal(err)
	}
	y := answer.Outputs[0].GetTensor()
	for i := 0; i+4 <= len(y.Content); i += 4 {
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(y.Content[i:])))
	}
}
